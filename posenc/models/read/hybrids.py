"""Models in which attention stands in some layers, and others hold a state."""

from collections.abc import Mapping

from posenc.models.keys import Keys, Sourced
from posenc.models.read.decoder import Decoder, by_head_dim, multiplier, none_turns, with_base
from posenc.models.read.kinds import (
    FULL,
    SLIDING,
    Kinds,
    alike,
    every,
    if_it_slides,
    listed,
    numbered,
)
from posenc.models.read.rope import Sections

_STATE = "linear_attention"
# Nemotron-H writes its layers as one word.
_LETTERS = {"M": "mamba", "*": FULL, "-": "mlp", "E": "moe"}


def _lara_kinds(keys: Keys, count: int) -> Kinds:
    rhythm = (_STATE, SLIDING, _STATE, FULL, SLIDING)
    kinds = tuple(rhythm[i % len(rhythm)] for i in range(count))
    return Sourced(kinds, f"default of {keys.owner}")


def _granite_turns(keys: Keys, kinds: tuple[str, ...]) -> tuple[bool, ...]:
    """Granite 4's: rotation is there where it is asked for by name."""
    if keys.word("position_embedding_type").value != "rope":
        return none_turns(keys, kinds)
    return (True,) * len(kinds)


def _jamba_kinds(keys: Keys, count: int) -> Kinds:
    period, key = keys.whole("attn_layer_period")
    offset = keys.whole("attn_layer_offset", least=0).value
    return Sourced(tuple(FULL if i % period == offset else _STATE for i in range(count)), key)


def _zamba_kinds(keys: Keys, count: int) -> Kinds:
    """The third layer has attention, and behind it the rhythm counts anew."""
    later, key = _jamba_kinds(keys, max(count - 3, 0))
    return Sourced((_STATE, _STATE, FULL, *later)[:count], key)


def _nemotron_kinds(keys: Keys, count: int) -> Kinds:
    letters, key = keys.word("hybrid_override_pattern")
    if letters is None:
        return Sourced((FULL,) * count, key)
    if len(letters) != count or set(letters) - set(_LETTERS):
        raise keys.wrong(key, letters, f"{count} letters of {', '.join(_LETTERS)}")
    return Sourced(tuple(_LETTERS[letter] for letter in letters), key)


def _kimi_kinds(keys: Keys, count: int) -> Kinds:
    inner = keys.inside("linear_attn_config")
    if inner is None:
        raise keys.wrong("linear_attn_config", None, "the numbers of the layers with attention")
    # It lists the other layers too, and what they are made of tells nothing of positions.
    return numbered(_STATE, "full_attn_layers", first=1)(inner, count)


def _doubled(keys: Keys, heads: int, kind: str) -> Sourced[int]:
    """Zamba's attention reads the layer and the input side by side, twice as wide."""
    value, key = keys.maybe_whole("attention_head_dim", "head_dim")
    if value is not None:
        return Sourced(value, key)
    width, key = keys.whole("hidden_size")
    return Sourced(2 * width // heads, f"{key} * 2 / heads")


def _half_of_head_dim(keys: Keys, head_dim: int) -> Sourced[float]:
    return Sourced((head_dim / 2) ** -0.5, "head_dim / 2")


def _multiplied_keys(keys: Keys, head_dim: int) -> Sourced[float]:
    """Falcon-H1's: keys are multiplied before the product is scaled."""
    scale, key = by_head_dim(keys, head_dim)
    more, name = keys.maybe_number("key_multiplier")
    return Sourced(scale, key) if more is None else Sourced(scale * more, f"{key} * {name}")


HYBRIDS: Mapping[str, Decoder] = {
    "qwen3_next": Decoder(
        with_base(10_000.0, head_dim=256, partial_rotary_factor=0.25, full_attention_interval=4),
        kinds=listed(every(FULL, _STATE, "full_attention_interval")),
    ),
    "qwen3_5_text": Decoder(
        with_base(10_000.0, head_dim=256, partial_rotary_factor=0.25, full_attention_interval=4),
        kinds=listed(every(FULL, _STATE, "full_attention_interval")),
        sections=Sections((11, 11, 10), interleaved=True),
    ),
    "lara_mini": Decoder(
        with_base(10_000.0, head_dim=128, sliding_window=512),
        kinds=listed(_lara_kinds),
        turned=if_it_slides,
    ),
    "granitemoehybrid": Decoder(
        with_base(10_000.0),
        kinds=listed(alike(_STATE), "layer_types", "layers_block_type"),
        turned=_granite_turns,
        scale=multiplier,
    ),
    "lfm2": Decoder(with_base(1_000_000.0), kinds=listed(numbered("conv", "full_attn_idxs"))),
    "lfm2_moe": Decoder(with_base(1_000_000.0), kinds=listed(numbered("conv", "full_attn_idxs"))),
    "jamba": Decoder(
        {"attn_layer_period": 8, "attn_layer_offset": 4},
        kinds=listed(_jamba_kinds, "layer_types", "layers_block_type"),
        turned=none_turns,
    ),
    "zamba": Decoder(
        {"attn_layer_period": 6, "attn_layer_offset": 4},
        kinds=listed(_zamba_kinds, "layer_types", "layers_block_type"),
        turned=none_turns,
        head_dim=_doubled,
        scale=_half_of_head_dim,
    ),
    "nemotron_h": Decoder(
        {"head_dim": 128},
        kinds=listed(_nemotron_kinds, "layer_types", "layers_block_type"),
        turned=none_turns,
        # Of the scan of the state.
        ignored=("chunk_size",),
    ),
    "kimi_linear": Decoder(
        {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128},
        kinds=listed(_kimi_kinds),
        turned=none_turns,
        latent=True,
    ),
    "falcon_h1": Decoder(
        with_base(10_000.0),
        scale=_multiplied_keys,
        ignored=("attn_layer_indices",),
        beyond=("beside attention, every layer holds a state",),
    ),
}
