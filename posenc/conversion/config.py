"""What the config.json beside a checkpoint says of its heads."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from posenc.conversion.pairs import FusedHeads
from posenc.errors import ConversionError, SettingError, shown

CONFIG = "config.json"


@dataclass(frozen=True)
class Geometry:
    """The heads of a model's attention, where they are known; `latent` is that of MLA."""

    head_dim: int | None = None
    rotary_dim: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    latent: bool | None = None


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
    """The heads that a config.json of transformers describes; for MLA, those of the queries."""
    try:
        config = json.loads(file.read_bytes())
        if not isinstance(config, dict):
            raise ValueError("it is no object")
    except (OSError, ValueError, RecursionError) as error:
        raise ConversionError(f"{file} is not a model's configuration: {error}") from None
    text = config.get("text_config")
    config |= text if isinstance(text, dict) else {}
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    rope = rope if isinstance(rope, dict) else {}
    config |= rope

    def number(*names: str, kind: Any = int) -> Any:
        value = next((config[name] for name in names if config.get(name) is not None), None)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, kind) or value <= 0
        ):
            raise ConversionError(f"{file} says {names[0]} = {shown(value)}, which no model has")
        return value

    heads = number("num_attention_heads", "n_head", "n_heads")
    kv_heads = number("num_key_value_heads") if heads is not None else None
    own, rotary = number("qk_nope_head_dim"), number("qk_rope_head_dim")
    if own and rotary:
        return Geometry(own + rotary, rotary, heads, latent=True)
    head_dim, width = number("head_dim"), number("hidden_size", "n_embd", "dim")
    if head_dim is None and heads and width:
        head_dim = width // heads
    fraction = number("partial_rotary_factor", "rotary_pct", kind=(int, float))
    # Proportional rotary names its share of frequencies so, and pairs over the whole head.
    if head_dim and fraction and "proportional" not in (rope.get("rope_type"), rope.get("type")):
        rotary = int(head_dim * fraction)
    return Geometry(head_dim, rotary or number("rotary_dim"), heads, kv_heads)
