"""Gemma: heads wider than their share, and two rotations by kind of layer."""

from collections.abc import Mapping

from posenc.models.keys import SIZES, Keys, Sourced
from posenc.models.read.decoder import (
    Decoder,
    both_ways,
    causal_window,
    one,
    query_scalar,
    several_key_heads,
    with_base,
)
from posenc.models.read.kinds import FULL, SLIDING, ends_full, every, listed, sees_ahead


def _gemma4_head_dim(keys: Keys, heads: int, kind: str) -> Sourced[int]:
    return keys.whole("global_head_dim" if kind == FULL else "head_dim", most=SIZES)


def _gemma4_key_heads(keys: Keys, heads: int, kind: str) -> Sourced[int]:
    own, key = keys.maybe_whole("num_global_key_value_heads")
    shared = keys.flag("attention_k_eq_v").value
    if kind == FULL and shared and own is not None:
        return Sourced(own, key)
    return several_key_heads(keys, heads, kind)


def _gemma3_opened(keys: Keys) -> bool:
    """As in EmbeddingGemma."""
    return keys.flag("use_bidirectional_attention").value or sees_ahead(keys)


def _gemma4_opened(keys: Keys) -> bool:
    """ "vision" speaks of images alone."""
    return keys.word("use_bidirectional_attention").value == "all" or sees_ahead(keys)


def _gemma3_window(keys: Keys) -> Sourced[int]:
    """Half of the width to each side, and the token itself, where both are seen."""
    asked = keys.flag("use_bidirectional_attention").value
    return both_ways("sliding_window")(keys) if asked else causal_window(keys)


def _gemma4_window(keys: Keys) -> Sourced[int]:
    """One more to each side than half of the width, where both are seen."""
    if keys.word("use_bidirectional_attention").value != "all":
        return causal_window(keys)
    width, key = both_ways("sliding_window")(keys)
    return Sourced(width + 1, f"{key} + 1")


_GEMMA = {"head_dim": 256}
_LOCAL = {SLIDING: ("rope_local_base_freq",), FULL: ("rope_theta",)}
_GEMMA2 = Decoder(
    with_base(10_000.0, sliding_window=4096, query_pre_attn_scalar=256, pattern=2, **_GEMMA),
    kinds=listed(every(FULL, SLIDING, "pattern")),
    scale=query_scalar,
)
_GEMMA3 = Decoder(
    with_base(
        1_000_000.0,
        num_attention_heads=8,
        num_key_value_heads=4,
        rope_local_base_freq=10_000.0,
        sliding_window=4096,
        sliding_window_pattern=6,
        query_pre_attn_scalar=256,
        max_position_embeddings=131_072,
        **_GEMMA,
    ),
    kinds=listed(every(FULL, SLIDING, "sliding_window_pattern", "_sliding_window_pattern")),
    bases=_LOCAL,
    scaled=frozenset({FULL}),
    scale=query_scalar,
    window=_gemma3_window,
    opened=_gemma3_opened,
)

GEMMA: Mapping[str, Decoder] = {
    "gemma": Decoder(with_base(10_000.0, **_GEMMA)),
    "gemma2": _GEMMA2,
    "vaultgemma": _GEMMA2,
    "gemma3_text": _GEMMA3,
    "gemma3n_text": Decoder(
        with_base(
            1_000_000.0,
            rope_local_base_freq=10_000.0,
            sliding_window=512,
            pattern=5,
            **_GEMMA,
        ),
        kinds=listed(every(FULL, SLIDING, "pattern")),
        bases=_LOCAL,
        scaled=frozenset({FULL}),
        scale=one,
        ignored=("query_pre_attn_scalar",),
    ),
    "gemma4_text": Decoder(
        with_base(10_000.0, sliding_window=512, pattern=6, global_head_dim=512, **_GEMMA),
        kinds=ends_full(listed(every(FULL, SLIDING, "pattern"))),
        key_heads=_gemma4_key_heads,
        head_dim=_gemma4_head_dim,
        silent_ropes={
            FULL: {
                "rope_type": "proportional",
                "partial_rotary_factor": 0.25,
                "rope_theta": 1_000_000.0,
            },
        },
        scale=one,
        window=_gemma4_window,
        opened=_gemma4_opened,
    ),
}
