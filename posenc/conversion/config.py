"""What the config.json beside a checkpoint says of its heads."""

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from posenc.conversion.names import ORDERS
from posenc.conversion.pairs import FusedHeads
from posenc.errors import ConfigError, ConversionError, SettingError, UnknownNameError, shown

CONFIG = "config.json"


@dataclass(frozen=True)
class Geometry:
    """The heads of a model's attention, where they are known; `latent` is that of MLA.

    `order` is that of fused heads, of a model type whose names alone would mislead.
    """

    head_dim: int | None = None
    rotary_dim: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    latent: bool | None = None
    order: str | None = None


def geometry(path: Path, asked: Geometry) -> Geometry:
    """What was asked, and where nothing was, what the config.json beside the checkpoint says.

    Raises ConversionError where both speak and contradict each other, or where the file is not
    JSON; SettingError where neither knows the size of a head, or where heads do not fit together.
    """
    file = (path if path.is_dir() else path.parent) / CONFIG
    known: dict[str, Any] = asdict(read_config(file)) if file.is_file() else {}
    for name, value in asdict(asked).items():
        if None not in (value, known.get(name)) and value != known[name]:
            raise ConversionError(
                f"{name}={value} was given, but {file} says {known[name]}: leave it out, or "
                "convert a copy without that file if it is of another model"
            )
        if value is not None:
            known[name] = value
    merged = Geometry(**known)
    if merged.head_dim is None:
        raise SettingError(f"head_dim= is needed: no {file} says how many dimensions a head has")
    if merged.heads is not None:
        FusedHeads(merged.heads, merged.kv_heads)
    elif merged.kv_heads is not None:
        raise SettingError(f"kv_heads={merged.kv_heads} says nothing without heads")
    return merged


def read_config(file: Path) -> Geometry:
    """The heads that a config.json of transformers describes; for MLA, those of the queries.

    Raises ConversionError for what is no configuration, and for layers that differ.
    """
    # Here, for changing the layout of a tensor needs none of it.
    from posenc.models.read.rope import SHARES

    try:
        config = json.loads(file.read_bytes())
        if not isinstance(config, dict):
            raise ValueError("it is no object")
    except (OSError, ValueError, RecursionError) as error:
        raise ConversionError(f"{file} is not a model's configuration: {error}") from None
    order = ORDERS.get(str(config.get("model_type")))
    told = _by_layers(file, config)
    text = config.get("text_config")
    config |= text if isinstance(text, dict) else {}
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    rope = rope if isinstance(rope, dict) else {}
    # One for all layers, or one for each kind of them.
    kinds = [x for x in rope.values() if isinstance(x, dict)] or [rope]
    shares = {name: x[name] for x in kinds for name in SHARES if x.get(name) is not None}
    if any(x.get(name, 1.0) != share for name, share in shares.items() for x in kinds):
        raise _differ(file)
    config |= rope | shares

    def number(*names: str, kind: Any = int, most: float = math.inf) -> Any:
        value = next((config[name] for name in names if config.get(name) is not None), None)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, kind) or not 0 < value <= most
        ):
            raise ConversionError(f"{file} says {names[0]} = {shown(value)}, which no model has")
        return value

    heads = number("num_attention_heads", "n_head", "n_heads") or told.heads
    kv_heads = number("num_key_value_heads") or told.kv_heads if heads is not None else None
    own, rotary = number("qk_nope_head_dim"), number("qk_rope_head_dim")
    if own and rotary:
        return Geometry(own + rotary, rotary, heads, latent=True)
    head_dim = number("head_dim") or told.head_dim
    width = number("hidden_size", "n_embd", "dim")
    if head_dim is None and heads and width:
        head_dim = width // heads
    fraction = number(*SHARES, kind=(int, float), most=1)
    # Proportional rotary names its share of frequencies so, and pairs over the whole head.
    proportional = any("proportional" in (x.get("rope_type"), x.get("type")) for x in kinds)
    if head_dim and fraction and not proportional:
        rotary = int(head_dim * fraction)
    rotary_dim = told.rotary_dim or rotary or number("rotary_dim")
    return Geometry(head_dim, rotary_dim, heads, kv_heads, order=order)


def _by_layers(file: Path, config: dict[str, Any]) -> Geometry:
    """What all layers that turn have in common, of a model whose type is known.

    No rotary_dim where no part alone turns, no kv_heads where keys have as many heads as queries.
    """
    from posenc.models.read import read

    try:
        layers = read(config).layers
    except (ConfigError, UnknownNameError):
        return Geometry()
    told: set[Geometry] = set()
    for x in layers:
        if x is not None and x.rotary is not None:
            fewer = x.key_heads if x.key_heads < x.heads else None
            turned = x.rotary.settings.get("rotary_dim")
            told.add(Geometry(x.head_dim, turned, x.heads, fewer))
    if len({(x.head_dim, x.rotary_dim) for x in told}) > 1:
        raise _differ(file)
    one = next(iter(told), Geometry())
    # Layers may still differ in their heads, and each tensor is held to the file's own words.
    return one if len(told) == 1 else replace(one, heads=None, kv_heads=None)


def _differ(file: Path) -> ConversionError:
    return ConversionError(
        f"{file} says that layers rotate different parts of their heads: convert each kind by "
        "names=, head_dim= and rotary_dim=, in a copy without that file"
    )
