"""The keys of a GGUF file under the names that configurations have for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posenc.models.keys import LAYERS, Keys, Sourced
from posenc.models.read.gguf.architectures import Architecture
from posenc.models.read.gguf.header import GGUFHeader
from posenc.models.read.gguf.scaling import considered, scaling_values
from posenc.models.read.kinds import FULL, SLIDING

OWNER = "llama.cpp"

_NAMES = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "max_position_embeddings": "context_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "key_length_swa": "attention.key_length_swa",
    "sliding_window": "attention.sliding_window",
    "attention_multiplier": "attention.scale",
    "rotary_dim": "rope.dimension_count",
    "rope_theta": "rope.freq_base",
    "rope_local_base_freq": "rope.freq_base_swa",
    "full_attention_interval": "full_attention_interval",
}
_PATTERN, _SECTIONS = "attention.sliding_window_pattern", "rope.dimension_sections"


@dataclass(frozen=True)
class HeadCounts:
    """How many heads and key heads each layer has; without either there is no attention."""

    heads: tuple[int, ...]
    key_heads: tuple[int, ...]

    def first(self) -> int | None:
        """The first layer with attention."""
        counts = enumerate(zip(self.heads, self.key_heads, strict=True))
        return next((i for i, (heads, keys) in counts if heads and keys), None)


def stated_keys(header: GGUFHeader, name: str) -> Keys:
    """The keys of the architecture of this name, as the file calls them."""
    prefix = f"{name}."
    own = {key: value for key, value in header.values.items() if key.startswith(prefix)}
    return Keys({key.removeprefix(prefix): own[key] for key in own}, owner=OWNER, path=prefix)


def layer_count(stated: Keys, architecture: Architecture) -> int:
    """Layers of the model itself, which blocks that predict further tokens are not."""
    blocks = stated.whole("block_count", most=LAYERS).value
    if not architecture.apart:
        return blocks
    apart = stated.maybe_whole("nextn_predict_layers", least=0, most=blocks - 1)
    return blocks - (apart.value or 0)


def head_counts(stated: Keys, count: int) -> HeadCounts:
    """Heads and key heads by layer, of one number or of a list."""
    heads = _by_layer(stated, "attention.head_count", count)
    if heads is None:
        heads = (stated.whole("attention.head_count").value,) * count
    return HeadCounts(heads, _by_layer(stated, "attention.head_count_kv", count) or heads)


def _by_layer(stated: Keys, name: str, count: int) -> tuple[int, ...] | None:
    value, key = stated.any(name)
    if value is None:
        return None
    if not isinstance(value, tuple):
        return (stated.whole(name, least=0).value,) * count
    numbers = stated.whole_numbers(name).value or ()
    if len(numbers) < count:
        raise stated.wrong(key, value, f"a number for each of {count} layers")
    return numbers[:count]


def renamed(stated: Keys, names: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of these keys under their new names, and the others.

    Of the others, what might be taken for a key of a configuration keeps the architecture's name.
    """
    values = {key: stated.values[own] for key, own in names.items() if own in stated.values}
    taken = set(names.values())
    rest = {
        key if "." in key else stated.path + key: value
        for key, value in stated.values.items()
        if key not in taken
    }
    return values, rest


def translated(header: GGUFHeader, stated: Keys, architecture: Architecture, count: int) -> Keys:
    """The keys of a file under other names, each of which knows what the file calls it.

    Raises ConfigError for values of the wrong kind.
    """
    values, rest = renamed(stated, _NAMES)
    names = {key: stated.path + own for key, own in _NAMES.items()}
    values["num_hidden_layers"] = count
    counts = head_counts(stated, count)
    if (first := counts.first()) is not None:
        values["num_attention_heads"] = counts.heads[first]
        if "num_key_value_heads" in values:
            values["num_key_value_heads"] = counts.key_heads[first]
    if (pattern := rest.pop(_PATTERN, None)) is not None:
        name, value = _kinds(stated, pattern, count)
        values[name], names[name] = value, stated.path + _PATTERN
    if architecture.decoder.latent:
        _split_head(stated, values, names)
    if architecture.whole_heads:
        values.pop("rotary_dim", None)
        rest.pop("rope.dimension_count_swa", None)
    scaling = scaling_values(header, stated, architecture, _pairs(values, names))
    for key in considered(stated, architecture):
        rest.pop(key, None)
    if architecture.decoder.sections is not None and _SECTIONS in rest:
        pairs = stated.whole_numbers(_SECTIONS)
        # There is a place for a fourth axis, which no model has.
        used = [x for x in pairs.value or () if x]
        scaling["mrope_section"] = Sourced(used, pairs.key)
        del rest[_SECTIONS]
    if scaling:
        values["rope_scaling"] = {key: x.value for key, x in scaling.items()}
        names |= {f"rope_scaling.{key}": x.key for key, x in scaling.items()}
    names |= {key: stated.path + key for key in rest if not key.startswith(stated.path)}
    return Keys(rest | values, architecture.decoder.silent, owner=OWNER, names=names)


def _kinds(stated: Keys, pattern: Any, count: int) -> tuple[str, Any]:
    """Which layers slide: one by one, or one rhythm for all."""
    if not isinstance(pattern, tuple):
        return "pattern", pattern
    if len(pattern) < count:
        raise stated.wrong(stated.path + _PATTERN, pattern, f"one value for each of {count} layers")
    return "layer_types", [SLIDING if slides else FULL for slides in pattern[:count]]


def _pairs(values: dict[str, Any], names: dict[str, str]) -> int:
    """How many pairs turn; 0 where the file says too little, which its rule will find."""
    keys = Keys(values, owner=OWNER, names=names)
    for name in ("qk_rope_head_dim", "rotary_dim", "head_dim"):
        if (count := keys.maybe_whole(name).value) is not None:
            return count // 2
    heads, width = keys.maybe_whole("num_attention_heads", least=0), keys.maybe_whole("hidden_size")
    return (width.value or 0) // (2 * heads.value) if heads.value else 0


def _split_head(stated: Keys, values: dict[str, Any], names: dict[str, str]) -> None:
    """The dimensions that rest and those that turn, of keys that come from a latent vector."""
    last = stated.whole("rope.dimension_count")
    # With keys and values in one, key_length is that of the latent vector.
    wide = stated.whole("attention.key_length_mla", "attention.key_length", least=last.value + 1)
    value = stated.maybe_whole("attention.value_length_mla", "attention.value_length")
    if value.value is None:
        width, heads = stated.whole("embedding_length"), values.get("num_attention_heads")
        value = Sourced(width.value // (heads or 1), f"{width.key} / heads")
    values |= {
        "qk_rope_head_dim": last.value,
        "qk_nope_head_dim": wide.value - last.value,
        "v_head_dim": value.value,
    }
    names |= {
        "qk_rope_head_dim": last.key,
        "qk_nope_head_dim": f"{wide.key} - {last.key}",
        "v_head_dim": value.key,
    }
    values.pop("rotary_dim", None)
