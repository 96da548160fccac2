"""Towers over the patches of an image, whose queries and keys turn by row and column."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from posenc.models.keys import SIZES, Keys, Sourced
from posenc.models.read.decoder import BASES, must_divide
from posenc.models.read.learned import RESIZED, grid_rows
from posenc.models.read.stack import HEADS, learned, plain_layer, stack
from posenc.models.spec import EncodingSpec, Layout, PartSpec

_NO_ROWS: Sourced[int | None] = Sourced(None, "no limit")


@dataclass(frozen=True)
class Tower:
    """What the code of a tower does, as far as its configuration does not say.

    silent are its defaults by key. rows counts the trained rows that are added to the patches, and
    rows_by_axis those of each axis where a patch adds one for its row and one for its column.
    spectrum is the frequency of each pair where it is not that of AxialRotary, settings are others
    of it, or what it has no setting for. windowed: only the layers that are listed see everything.
    """

    silent: Mapping[str, Any] = field(default_factory=dict)
    width: tuple[str, ...] = ("hidden_size",)
    layout: Layout = "half"
    rows: Callable[[Keys], Sourced[int]] | None = None
    rows_by_axis: Callable[[Keys], int] | None = None
    spectrum: Callable[[float, int], tuple[float, ...]] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    normed: bool = False
    windowed: bool = False
    beyond: tuple[str, ...] = ()


def by_turns(base: float, dim: int) -> tuple[float, ...]:
    """Pixtral's: rows take the even frequencies of one spectrum, and columns the odd ones."""
    every = [base ** (-2 * i / dim) for i in range(dim // 2)]
    return tuple(every[0::2] + every[1::2])


def listed_rows(keys: Keys) -> Sourced[int]:
    """As many as the file says."""
    return keys.whole("num_position_embeddings")


def read_tower(keys: Keys, tower: Tower) -> Mapping[str, PartSpec]:
    """The layers of a tower."""
    heads, _ = keys.whole(*HEADS, most=SIZES)
    head_dim = keys.maybe_whole("head_dim")
    if head_dim.value is None:
        width, key = keys.whole(*tower.width)
        head_dim = Sourced(width // heads, f"{key} / heads")
    dim = head_dim.value
    if not dim or dim % 4 or dim > SIZES:
        raise keys.wrong(head_dim.key, dim, "head_dim, a multiple of 4 for two axes,")
    base, base_key = _base(keys)
    settings: dict[str, Any] = {"dim": dim, "base": base, "axes": 2, "layout": tower.layout}
    if tower.spectrum is not None:
        settings["frequencies"] = tower.spectrum(base, dim)
    spec = EncodingSpec("axial", {**settings, **tower.settings})
    scale = Sourced(1.0, f"always in {keys.owner}") if tower.normed else None
    size = Sourced(dim, head_dim.key)
    plain = plain_layer(keys, spec, head_dim=size, scale=scale, causal=False)
    count, key = keys.maybe_whole("num_key_value_heads")
    must_divide(keys, heads, Sourced(count, key))
    layer = replace(
        plain,
        key_heads=count or heads,
        beyond=tower.beyond,
        sources={**plain.sources, "encoding.base": base_key},
    )
    rows = [] if tower.rows is None else [learned(keys, tower.rows(keys))]
    trained = _NO_ROWS if tower.rows is None else tower.rows(keys)
    if tower.rows_by_axis:
        size = {"dim": keys.whole(*tower.width).value, "max_length": tower.rows_by_axis(keys)}
        rows = [EncodingSpec("grid_learned", {**size, "axes": 2})]
    # Some files have a length of text beside it.
    keys.any("max_position_embeddings", "global_head_dim")
    names = ("depth", "num_hidden_layers")
    part = stack(keys, layer, *rows, layers=names, trained=Sourced(trained.value, trained.key))
    return {"vision": _in_windows(keys, part) if tower.windowed else part}


def _base(keys: Keys) -> Sourced[float]:
    own = keys.inside("rope_parameters")
    value, key = keys.maybe_number(*BASES, least=1.0)
    if own is not None:
        kind = own.word("rope_type", "type")
        if kind.value not in (None, "default", "axial"):
            raise own.wrong(kind.key, kind.value, "'default' or 'axial'")
        inner, inner_key = own.maybe_number("rope_theta", least=1.0)
        if inner is not None:
            return Sourced(inner, inner_key)
    return Sourced(10_000.0 if value is None else value, key)


def _in_windows(keys: Keys, part: PartSpec) -> PartSpec:
    """Layers that are not listed see a square of the image alone."""
    pixels, key = keys.whole("window_size")
    full, _ = keys.whole_numbers("fullatt_block_indexes")
    chosen = set(full or ())
    beyond = f"windows of {pixels} x {pixels} pixels"
    layers = tuple(
        layer
        if layer is None or i in chosen
        else replace(
            layer,
            beyond=(*layer.beyond, beyond),
            sources={**layer.sources, "beyond": key},
        )
        for i, layer in enumerate(part.layers)
    )
    return replace(part, layers=layers)


_WINDOWS = {"window_size": 112, "fullatt_block_indexes": (7, 15, 23, 31)}
_SIZES = {"depth": 32, "num_heads": 16}
_WIDE = {"depth": 27, "num_heads": 16, "hidden_size": 1152}

TOWERS: Mapping[str, Tower] = {
    "dinov3_vit": Tower(
        {"rope_theta": 100.0, "image_size": 224, "patch_size": 16},
        settings={"radians": 2 * math.pi},
        beyond=(
            "positions are the centres of patches, from -1 to 1",
            "tokens of the class and registers do not turn",
        ),
    ),
    "pixtral": Tower({"hidden_size": 1024}, spectrum=by_turns),
    "llama4_vision_model": Tower(
        {"image_size": 448, "patch_size": 14, "num_hidden_layers": 34},
        layout="interleaved",
        rows=lambda keys: grid_rows(keys, 1),
        beyond=(
            "positions are (column, row), counted from 1",
            "the token of the class is the last and does not turn",
        ),
    ),
    "qwen2_vl_vision": Tower({**_SIZES, "embed_dim": 1280}, width=("embed_dim",)),
    "qwen2_5_vl_vision": Tower({**_SIZES, **_WINDOWS, "hidden_size": 3584}, windowed=True),
    "exaone4_5_vision": Tower({**_SIZES, **_WINDOWS, "num_key_value_heads": 8}, windowed=True),
    "ernie4_5_vl_moe_vision": Tower({**_SIZES, "hidden_size": 1280}),
    "qwen3_vl_vision": Tower(
        {**_WIDE, "num_position_embeddings": 2304},
        rows=listed_rows,
        beyond=(RESIZED,),
    ),
    "glm4v_vision": Tower(
        {"depth": 24, "num_heads": 12, "hidden_size": 1536, "image_size": 336, "patch_size": 14},
        rows=lambda keys: grid_rows(keys, 0),
        beyond=(RESIZED,),
    ),
    "gemma4_vision": Tower(
        {
            "rope_theta": 100.0,
            "head_dim": 64,
            "hidden_size": 768,
            "num_hidden_layers": 16,
            "num_attention_heads": 12,
            "position_embedding_size": 10_240,
        },
        rows_by_axis=lambda keys: keys.whole("position_embedding_size").value,
        settings={"each_axis_in_its_half": True},
        normed=True,
    ),
}
