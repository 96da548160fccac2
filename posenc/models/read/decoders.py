"""The model types whose queries and keys turn, each as what its code does of itself."""

from collections.abc import Mapping

from posenc.models.keys import Keys, Sourced
from posenc.models.read.decoder import (
    Decoder,
    deepseek_scale,
    listed_turns,
    multiplier,
    one,
    only_sliding_turns,
    query_scalar,
    several_key_heads,
)
from posenc.models.read.kinds import (
    CHUNKED,
    FULL,
    SLIDING,
    Kinds,
    alike,
    by_window,
    every,
    listed,
    upper_layers,
)
from posenc.models.read.rope import Sections, fixed_alpha, two_gains
from posenc.models.spec import EncodingSpec, Layout


def _base(theta: float, **silent: object) -> dict[str, object]:
    return {"rope_theta": theta, **silent}


def _llama4_kinds(keys: Keys, count: int) -> Kinds:
    turns = listed_turns(keys, (FULL,) * count)
    return Sourced(tuple(CHUNKED if x else FULL for x in turns), "no_rope_layers")


def _llama4_temper(keys: Keys, turns: bool) -> EncodingSpec | None:
    tuned = keys.flag("attn_temperature_tuning").value
    length, strength = keys.whole("floor_scale").value, keys.maybe_number("attn_scale").value
    if turns or not tuned:
        return None
    settings = {"kind": "llama4", "original_length": length, "strength": strength}
    return EncodingSpec("temperature", settings)


def _both_ways(keys: Keys) -> Sourced[int]:
    width, key = keys.whole("local_attention")
    # Half to each side, and the token itself.
    return Sourced(width // 2 + 1, f"{key} / 2 + 1")


def _rope_interleave(keys: Keys) -> Layout:
    return "interleaved" if keys.flag("rope_interleave").value else "half"


def _exaone_kinds(keys: Keys, count: int) -> Kinds:
    width = keys.maybe_whole("sliding_window")
    pattern, key = keys.any("sliding_window_pattern")
    if width.value is None:
        return Sourced((FULL,) * count, width.key)
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        # The last layer sees everything, whatever the pattern says.
        letters = [pattern[i % len(pattern)] for i in range(count - 1)] + ["G"]
        return Sourced(tuple(SLIDING if x == "L" else FULL for x in letters), key)
    return every(FULL, SLIDING, "sliding_window_pattern")(keys, count)


def _ministral(keys: Keys, turns: bool) -> EncodingSpec | None:
    own = keys.inside("rope_parameters") or keys.inside("rope_scaling")
    strength = own.maybe_number("llama_4_scaling_beta").value if own else None
    if own is None or not strength:
        return None
    length = own.whole("original_max_position_embeddings").value
    settings = {"kind": "ministral", "original_length": length, "strength": strength}
    return EncodingSpec("temperature", settings)


def _gemma4_head_dim(keys: Keys, heads: int, kind: str) -> Sourced[int]:
    return keys.whole("global_head_dim") if kind == FULL else keys.whole("head_dim")


def _gemma4_key_heads(keys: Keys, heads: int, kind: str) -> Sourced[int]:
    own, key = keys.maybe_whole("num_global_key_value_heads")
    shared = keys.flag("attention_k_eq_v").value
    if kind == FULL and shared and own is not None:
        return Sourced(own, key)
    return several_key_heads(keys, heads, kind)


def _granite_turns(keys: Keys, kinds: tuple[str, ...]) -> tuple[bool, ...]:
    """Granite 4's: rotation is there where it is asked for by name."""
    asked = keys.word("position_embedding_type").value == "rope"
    return (asked,) * len(kinds)


def _jamba_kinds(keys: Keys, count: int) -> Kinds:
    period, key = keys.whole("attn_layer_period")
    offset = keys.whole("attn_layer_offset", least=0).value
    kinds = tuple(FULL if i % period == offset else "mamba" for i in range(count))
    return Sourced(kinds, key)


LLAMA = Decoder(_base(10_000.0, max_position_embeddings=2048))
HUNYUAN = Decoder(LLAMA.silent, scalings={"dynamic": fixed_alpha}, ignored=("use_rotary_pos_emb",))
QWEN2 = Decoder(
    _base(10_000.0, use_sliding_window=False, sliding_window=4096, max_window_layers=28),
    kinds=listed(upper_layers),
)
_GEMMA = {"head_dim": 256}
_LOCAL = {SLIDING: ("rope_local_base_freq",), FULL: ("rope_theta",)}
_GEMMA3 = Decoder(
    _base(
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
)
_DEEPSEEK = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}

DECODERS: Mapping[str, Decoder] = {
    "llama": LLAMA,
    "mistral": Decoder(_base(10_000.0, sliding_window=4096), kinds=by_window),
    "mixtral": Decoder(_base(1_000_000.0), kinds=by_window),
    "qwen2": QWEN2,
    "qwen2_moe": QWEN2,
    "qwen3": Decoder({**QWEN2.silent, "head_dim": 128}, kinds=QWEN2.kinds),
    "qwen3_moe": Decoder(
        _base(10_000.0, use_sliding_window=False, sliding_window=4096),
        kinds=listed(upper_layers),
    ),
    "qwen3_next": Decoder(
        _base(10_000.0, head_dim=256, partial_rotary_factor=0.25, full_attention_interval=4),
        kinds=listed(every(FULL, "linear_attention", "full_attention_interval")),
    ),
    "gemma": Decoder(_base(10_000.0, **_GEMMA)),
    "gemma2": Decoder(
        _base(10_000.0, sliding_window=4096, query_pre_attn_scalar=256, pattern=2, **_GEMMA),
        kinds=listed(every(FULL, SLIDING, "pattern")),
        scale=query_scalar,
    ),
    "gemma3_text": _GEMMA3,
    "phi": Decoder(_base(10_000.0, partial_rotary_factor=0.5)),
    "phi-msft": Decoder(_base(10_000.0)),
    "phimoe": Decoder(_base(1_000_000.0), kinds=by_window, scalings={"longrope": two_gains}),
    "phi3_v": Decoder(_base(10_000.0), kinds=by_window),
    "phi3": Decoder(_base(10_000.0), kinds=by_window),
    "gpt_oss": Decoder(
        _base(150_000.0, head_dim=64, sliding_window=128, pattern=2),
        kinds=listed(every(FULL, SLIDING, "pattern")),
        sink_logits=True,
    ),
    "smollm3": Decoder(_base(2_000_000.0, no_rope_layer_interval=4), turned=listed_turns),
    "llama4_text": Decoder(
        _base(
            500_000.0,
            head_dim=128,
            no_rope_layer_interval=4,
            attention_chunk_size=8192,
            attn_temperature_tuning=True,
            floor_scale=8192,
            attn_scale=0.1,
        ),
        layout="interleaved",
        kinds=listed(_llama4_kinds),
        turned=listed_turns,
        temper=_llama4_temper,
    ),
    "deepseek_v2": Decoder(
        _base(10_000.0, **_DEEPSEEK), layout="interleaved", latent=True, scale=deepseek_scale
    ),
    "deepseek_v3": Decoder(
        _base(10_000.0, rope_interleave=True, **_DEEPSEEK),
        layout=_rope_interleave,
        latent=True,
        scale=deepseek_scale,
    ),
    "minicpm3": Decoder(
        _base(10_000.0, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64),
        latent=True,
        scale=deepseek_scale,
    ),
    "deepseek_v32": Decoder(
        _base(10_000.0, rope_interleave=True, **_DEEPSEEK),
        layout=_rope_interleave,
        latent=True,
        scale=deepseek_scale,
        beyond=("each query attends only the keys that an indexer picks",),
    ),
    "gpt_neox": Decoder(_base(10_000.0, rotary_pct=0.25)),
    "gptj": Decoder(_base(10_000.0, rotary_dim=64), layout="interleaved", ignored=("rotary",)),
    "codegen": Decoder(_base(10_000.0, rotary_dim=64), layout="interleaved"),
    "stablelm": Decoder(_base(10_000.0, partial_rotary_factor=0.25)),
    "persimmon": Decoder(_base(10_000.0, partial_rotary_factor=0.5)),
    "nemotron": Decoder(_base(10_000.0, partial_rotary_factor=0.5)),
    "starcoder2": Decoder(_base(10_000.0), kinds=by_window),
    "olmo": LLAMA,
    "olmo2": LLAMA,
    "olmo3": Decoder(
        _base(500_000.0, sliding_window=4096, pattern=4),
        kinds=listed(every(FULL, SLIDING, "pattern")),
    ),
    "granite": Decoder(_base(10_000.0), scale=multiplier),
    "cohere": Decoder(_base(500_000.0), layout="interleaved", ignored=("position_embedding_type",)),
    "cohere2": Decoder(
        _base(10_000.0, sliding_window=4096, sliding_window_pattern=4),
        layout="interleaved",
        kinds=listed(every(FULL, SLIDING, "sliding_window_pattern")),
        turned=only_sliding_turns,
        ignored=("position_embedding_type",),
    ),
    "glm": Decoder(_base(10_000.0, head_dim=128, partial_rotary_factor=0.5), layout="interleaved"),
    "glm4": Decoder(_base(10_000.0, head_dim=128, partial_rotary_factor=0.5), layout="interleaved"),
    "glm4_moe": Decoder(_base(10_000.0, partial_rotary_factor=0.5)),
    "ernie4_5": Decoder(_base(500_000.0), layout="interleaved"),
    "hunyuan_v1_dense": HUNYUAN,
    "hunyuan_v1_moe": HUNYUAN,
    "seed_oss": Decoder(_base(10_000.0, head_dim=128)),
    "exaone4": Decoder(
        _base(10_000.0, sliding_window=4096, sliding_window_pattern=4),
        kinds=listed(_exaone_kinds),
        turned=only_sliding_turns,
    ),
    "ministral": Decoder(_base(10_000.0, sliding_window=4096), kinds=listed(by_window)),
    "ministral3": Decoder(_base(1_000_000.0, head_dim=128), kinds=by_window, temper=_ministral),
    "granitemoehybrid": Decoder(
        _base(10_000.0),
        kinds=listed(alike("linear_attention"), "layer_types", "layers_block_type"),
        turned=_granite_turns,
        scale=multiplier,
    ),
    "qwen2_vl_text": Decoder(
        {**QWEN2.silent, "rope_theta": 1_000_000.0},
        kinds=QWEN2.kinds,
        sections=Sections((16, 24, 24)),
    ),
    "qwen3_vl_text": Decoder(
        _base(500_000.0, head_dim=128), sections=Sections((24, 20, 20), interleaved=True)
    ),
    "qwen3_5_text": Decoder(
        _base(10_000.0, head_dim=256, partial_rotary_factor=0.25, full_attention_interval=4),
        kinds=listed(every(FULL, "linear_attention", "full_attention_interval")),
        sections=Sections((11, 11, 10), interleaved=True),
    ),
    "glm4v_text": Decoder(_base(10_000.0), layout="interleaved", sections=Sections((8, 12, 12))),
    "gemma4_text": Decoder(
        _base(10_000.0, sliding_window=512, pattern=6, global_head_dim=512, **_GEMMA),
        kinds=listed(every(FULL, SLIDING, "pattern")),
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
    ),
    "gemma3n_text": Decoder(
        _base(
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
    "internlm2": LLAMA,
    "internlm3": LLAMA,
    "minicpm": LLAMA,
    "helium": Decoder(_base(100_000.0), layout="interleaved"),
    "apertus": Decoder(_base(12_000_000.0)),
    "lfm2": Decoder(_base(1_000_000.0)),
    "jamba": Decoder(
        {"attn_layer_period": 8, "attn_layer_offset": 4},
        kinds=listed(_jamba_kinds),
        turned=lambda keys, kinds: (False,) * len(kinds),
    ),
    "modernbert": Decoder(
        {
            "global_rope_theta": 160_000.0,
            "local_rope_theta": 10_000.0,
            "local_attention": 128,
            "global_attn_every_n_layers": 3,
        },
        kinds=listed(every(FULL, SLIDING, "global_attn_every_n_layers", first=True)),
        bases={FULL: ("global_rope_theta",), SLIDING: ("local_rope_theta",)},
        window=_both_ways,
        ignored=("position_embedding_type",),
        causal=False,
    ),
}
