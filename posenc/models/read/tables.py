"""Towers whose scores have a trained number for each step of rows and columns."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posenc.models.keys import LAYERS, Keys, Sourced
from posenc.models.read.learned import grid_rows, side
from posenc.models.read.stack import HEADS, learned, plain_layer, stack
from posenc.models.spec import EncodingSpec, LayerSpec, PartSpec

TABLE, CONTINUOUS = "swin", "log_cpb"


def read_beit(keys: Keys) -> Mapping[str, PartSpec]:
    """A table for each layer or one for all, and trained rows where they are asked for."""
    tokens = grid_rows(keys, 1)
    across = math.isqrt(tokens.value - 1)
    own, key = keys.flag("use_relative_position_bias")
    shared, shared_key = keys.flag("use_shared_relative_position_bias")
    settings: dict[str, Any] = {
        "heads": keys.whole(*HEADS).value,
        "grid": (across, across),
        "class_token": True,
    }
    beyond = ("all layers share one table",) if shared and not own else ()
    specs = (EncodingSpec(TABLE, settings),) if own or shared else ()
    plain = plain_layer(keys, *specs, causal=False)
    sources = {**plain.sources, "encoding": key if own else shared_key}
    layer = replace(plain, beyond=beyond, sources=sources)
    rows = []
    if keys.flag("use_absolute_position_embeddings").value:
        rows = [learned(keys, tokens)]
    return {"vision": stack(keys, layer, *rows, trained=Sourced(tokens.value, tokens.key))}


def read_swin(keys: Keys) -> Mapping[str, PartSpec]:
    """A trained table in every window of patches; every second layer shifts the windows."""
    return {"vision": _stages(keys, TABLE)}


def read_swinv2(keys: Keys) -> Mapping[str, PartSpec]:
    """A small network of the step in place of the table, and cosines in place of products."""
    return {"vision": _stages(keys, CONTINUOUS)}


def _stages(keys: Keys, kind: str) -> PartSpec:
    depths, depths_key = keys.whole_numbers("depths")
    heads, heads_key = keys.whole_numbers("num_heads")
    if not depths or not heads or len(depths) != len(heads) or 0 in heads:
        raise keys.wrong(heads_key, heads, "a list of heads, one number for each of depths,")
    if sum(depths) > LAYERS or len(depths) > 16:
        raise keys.wrong(depths_key, depths, f"at most {LAYERS} layers in at most 16 stages")
    width, width_key = keys.whole("embed_dim")
    image, patch = side(keys, "image_size"), side(keys, "patch_size")
    window, window_key = side(keys, "window_size")
    # The windows that a network was trained on, by which steps are divided; 0 is those of the file.
    trained = keys.whole_numbers("pretrained_window_sizes").value or ()
    across = image.value // patch.value
    layers: list[LayerSpec] = []
    for stage, (depth, count) in enumerate(zip(depths, heads, strict=True)):
        whole = across >> stage
        reach = min(window, whole)
        if whole < 1 or (width << stage) % count:
            raise keys.wrong(heads_key, heads, f"divisors of the widths of {width_key} = {width}")
        shift = 0 if whole <= window else reach // 2
        dim = (width << stage) // count
        for number in range(depth):
            step = shift if number % 2 else 0
            across_window = trained[stage : stage + 1] if kind == CONTINUOUS else ()
            size = max(across_window, default=0) or reach
            spec = EncodingSpec(kind, {"heads": count, "grid": (size, size)})
            layers.append(
                LayerSpec(
                    encodings=(spec,),
                    heads=count,
                    key_heads=count,
                    head_dim=dim,
                    value_dim=dim,
                    scale=1.0 if kind == CONTINUOUS else dim**-0.5,
                    causal=False,
                    beyond=_beyond(kind, reach, step),
                    sources={
                        "heads": heads_key,
                        "key_heads": heads_key,
                        "head_dim": f"{width_key} / {heads_key}",
                        "scale": f"always in {keys.owner}" if kind == CONTINUOUS else "head_dim",
                        "beyond": window_key,
                    },
                )
            )
    rows = ()
    if keys.flag("use_absolute_embeddings").value:
        rows = (EncodingSpec("learned", {"dim": width, "max_length": across**2}),)
    return PartSpec(tuple(layers), rows, sources={"layers": depths_key})


def _beyond(kind: str, reach: int, step: int) -> tuple[str, ...]:
    said = [f"windows of {reach} x {reach} patches"]
    if step:
        said.append(f"windows are shifted by {step} patches")
    if kind == CONTINUOUS:
        said.append("products are of unit vectors, and each head has a trained scale")
    return tuple(said)
