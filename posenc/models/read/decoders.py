"""The model types whose queries and keys turn, each as what its code does of itself."""

from collections.abc import Mapping
from dataclasses import replace

from posenc.models.keys import Keys, Sourced
from posenc.models.read.decoder import (
    Decoder,
    both_ways,
    listed_turns,
    multiplier,
    only_sliding_turns,
    turning_layers,
    with_base,
)
from posenc.models.read.dual_chunk import beside_dual_chunk, dual_chunk
from posenc.models.read.kinds import (
    CHUNKED,
    FULL,
    SLIDING,
    Kinds,
    by_window,
    every,
    if_it_slides,
    listed,
    upper_layers,
)
from posenc.models.read.rope import Sections, fixed_alpha, two_gains
from posenc.models.spec import EncodingSpec


def _llama4_kinds(keys: Keys, count: int) -> Kinds:
    turns, key = turning_layers(keys, count)
    return Sourced(tuple(CHUNKED if x else FULL for x in turns), key)


def _llama4_temper(keys: Keys, turns: bool) -> EncodingSpec | None:
    tuned = keys.flag("attn_temperature_tuning").value
    length, strength = keys.whole("floor_scale").value, keys.maybe_number("attn_scale").value
    if turns or not tuned:
        return None
    settings = {"kind": "llama4", "original_length": length, "strength": strength}
    return EncodingSpec("temperature", settings)


def _exaone_kinds(keys: Keys, count: int) -> Kinds:
    width = keys.maybe_whole("sliding_window")
    pattern, key = keys.any("sliding_window_pattern")
    if width.value is None or pattern is None:
        return Sourced((FULL,) * count, key if pattern is None else width.key)
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        # The last layer sees everything, whatever the pattern says.
        letters = [pattern[i % len(pattern)] for i in range(count - 1)] + ["G"]
        return Sourced(tuple(SLIDING if x == "L" else FULL for x in letters), key)
    return every(FULL, SLIDING, "sliding_window_pattern")(keys, count)


def _dots_kinds(keys: Keys, count: int) -> Kinds:
    """Layers from max_window_layers on slide where there is a window."""
    width = keys.maybe_whole("sliding_window")
    lowest, key = keys.whole("max_window_layers", least=0)
    if width.value is None:
        return Sourced((FULL,) * count, width.key)
    return Sourced(tuple(SLIDING if i >= lowest else FULL for i in range(count)), key)


# What code takes where a file has no rotation: not only a base, but a stretch.
_GPT_OSS = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}
_MINISTRAL3 = {
    "rope_type": "yarn",
    "rope_theta": 1_000_000.0,
    "factor": 16.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 16_384,
    "llama_4_scaling_beta": 0.1,
}
_APERTUS = {
    "rope_type": "llama3",
    "rope_theta": 12_000_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def _ministral(keys: Keys, turns: bool) -> EncodingSpec | None:
    own = keys.inside("rope_parameters") or keys.inside("rope_scaling")
    own = own or Keys({}, _MINISTRAL3, owner=keys.owner)
    strength = own.maybe_number("llama_4_scaling_beta").value
    if not strength:
        return None
    length = own.whole("original_max_position_embeddings").value
    settings = {"kind": "ministral", "original_length": length, "strength": strength}
    return EncodingSpec("temperature", settings)


LLAMA = Decoder(with_base(10_000.0, max_position_embeddings=2048))
HUNYUAN = Decoder(LLAMA.silent, scalings={"dynamic": fixed_alpha}, ignored=("use_rotary_pos_emb",))
QWEN2 = Decoder(
    with_base(10_000.0, use_sliding_window=False, sliding_window=4096, max_window_layers=28),
    kinds=listed(upper_layers),
    revised=dual_chunk,
    beside=beside_dual_chunk,
)
QWEN3 = replace(QWEN2, silent={**QWEN2.silent, "head_dim": 128})
APERTUS = Decoder(with_base(12_000_000.0), silent_ropes={FULL: _APERTUS})

DECODERS: Mapping[str, Decoder] = {
    "llama": LLAMA,
    "mistral": Decoder(with_base(10_000.0, sliding_window=4096), kinds=listed(by_window)),
    "mixtral": Decoder(with_base(1_000_000.0), kinds=by_window),
    "qwen2": QWEN2,
    "qwen2_moe": QWEN2,
    "qwen3": QWEN3,
    "qwen3_moe": replace(
        QWEN2, silent=with_base(10_000.0, use_sliding_window=False, sliding_window=4096)
    ),
    "phi": Decoder(with_base(10_000.0, partial_rotary_factor=0.5)),
    "phi-msft": Decoder(with_base(10_000.0)),
    "phimoe": Decoder(with_base(1_000_000.0), kinds=by_window, scalings={"longrope": two_gains}),
    "phi3_v": Decoder(with_base(10_000.0), kinds=by_window),
    "phi3": Decoder(with_base(10_000.0), kinds=by_window),
    "gpt_oss": Decoder(
        with_base(150_000.0, head_dim=64, sliding_window=128, pattern=2),
        kinds=listed(every(FULL, SLIDING, "pattern")),
        silent_ropes={FULL: _GPT_OSS, SLIDING: _GPT_OSS},
        sink_logits=True,
    ),
    "smollm3": Decoder(with_base(2_000_000.0, no_rope_layer_interval=4), turned=listed_turns),
    "llama4_text": Decoder(
        with_base(
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
    "gpt_neox": Decoder(with_base(10_000.0, rotary_pct=0.25)),
    "gptj": Decoder(with_base(10_000.0, rotary_dim=64), layout="interleaved", ignored=("rotary",)),
    "codegen": Decoder(with_base(10_000.0, rotary_dim=64), layout="interleaved"),
    "stablelm": Decoder(with_base(10_000.0, partial_rotary_factor=0.25)),
    "persimmon": Decoder(with_base(10_000.0, partial_rotary_factor=0.5)),
    "nemotron": Decoder(with_base(10_000.0, partial_rotary_factor=0.5)),
    "starcoder2": Decoder(with_base(10_000.0), kinds=by_window),
    "olmo": LLAMA,
    "olmo2": LLAMA,
    "olmo3": Decoder(
        with_base(500_000.0, sliding_window=4096, pattern=4),
        kinds=listed(every(FULL, SLIDING, "pattern")),
        # Layers that slide are not stretched.
        scaled=frozenset({FULL}),
    ),
    "granite": Decoder(with_base(10_000.0), scale=multiplier),
    "cohere": Decoder(
        with_base(500_000.0), layout="interleaved", ignored=("position_embedding_type",)
    ),
    "cohere2": Decoder(
        with_base(10_000.0, sliding_window=4096, sliding_window_pattern=4),
        layout="interleaved",
        kinds=listed(every(FULL, SLIDING, "sliding_window_pattern")),
        turned=only_sliding_turns,
        ignored=("position_embedding_type",),
    ),
    "glm": Decoder(
        with_base(10_000.0, head_dim=128, partial_rotary_factor=0.5), layout="interleaved"
    ),
    "glm4": Decoder(
        with_base(10_000.0, head_dim=128, partial_rotary_factor=0.5), layout="interleaved"
    ),
    "glm4_moe": Decoder(with_base(10_000.0, partial_rotary_factor=0.5)),
    "ernie4_5": Decoder(with_base(500_000.0, head_dim=128), layout="interleaved"),
    "ernie4_5_moe": Decoder(with_base(500_000.0), layout="interleaved"),
    "ernie4_5_vl_moe_text": Decoder(
        with_base(500_000.0),
        layout="interleaved",
        sections=Sections((22, 22, 20), interleaved="space"),
        ignored=("rope_3d",),
    ),
    "hunyuan_v1_dense": HUNYUAN,
    "hunyuan_v1_moe": HUNYUAN,
    "hunyuan_vl_text": Decoder(
        LLAMA.silent,
        sections=Sections(()),
        scalings={"dynamic": fixed_alpha, "xdrope": fixed_alpha},
    ),
    "seed_oss": Decoder(with_base(10_000.0, head_dim=128)),
    "exaone4": Decoder(
        with_base(10_000.0, sliding_window=4096, sliding_window_pattern=4),
        kinds=listed(_exaone_kinds),
        turned=only_sliding_turns,
    ),
    "ministral": Decoder(with_base(10_000.0, sliding_window=4096), kinds=listed(by_window)),
    "ministral3": Decoder(
        with_base(10_000.0, head_dim=128),
        kinds=by_window,
        temper=_ministral,
        silent_ropes={FULL: _MINISTRAL3, SLIDING: _MINISTRAL3},
    ),
    "qwen2_vl_text": Decoder(
        {**QWEN2.silent, "rope_theta": 1_000_000.0},
        kinds=QWEN2.kinds,
        sections=Sections((16, 24, 24)),
    ),
    "qwen3_vl_text": Decoder(
        with_base(500_000.0, head_dim=128), sections=Sections((24, 20, 20), interleaved=True)
    ),
    "glm4v_text": Decoder(
        with_base(10_000.0), layout="interleaved", sections=Sections((8, 12, 12))
    ),
    "arcee": Decoder(with_base(10_000.0)),
    "olmoe": Decoder(with_base(10_000.0)),
    "jais2": Decoder(with_base(10_000.0)),
    "flex_olmo": Decoder(with_base(500_000.0)),
    "bitnet": Decoder(with_base(500_000.0)),
    "granitemoe": Decoder(with_base(10_000.0), scale=multiplier),
    "granitemoeshared": Decoder(with_base(10_000.0), scale=multiplier),
    "minimax_m2": Decoder(with_base(5_000_000.0, head_dim=128)),
    "solar_open": Decoder(with_base(1_000_000.0, head_dim=128)),
    "hy_v3": Decoder(with_base(11_158_840.0, head_dim=128)),
    "dots1": Decoder(
        with_base(10_000.0, sliding_window=4096, max_window_layers=62), kinds=listed(_dots_kinds)
    ),
    "afmoe": Decoder(
        with_base(10_000.0, head_dim=128, sliding_window=1024, global_attn_every_n_layers=4),
        kinds=listed(every(FULL, SLIDING, "global_attn_every_n_layers")),
        turned=if_it_slides,
    ),
    "internlm2": LLAMA,
    "internlm3": Decoder(with_base(10_000.0, max_position_embeddings=32_768)),
    "minicpm": LLAMA,
    "helium": Decoder(with_base(100_000.0, head_dim=128), layout="interleaved"),
    "apertus": APERTUS,
    "apertus1p5_text": APERTUS,
    "sarvam_moe": Decoder(with_base(8_000_000.0, head_dim=64)),
    "modernbert": Decoder(
        {
            "global_rope_theta": 160_000.0,
            "local_rope_theta": 10_000.0,
            "local_attention": 128,
            "global_attn_every_n_layers": 3,
        },
        kinds=listed(every(FULL, SLIDING, "global_attn_every_n_layers", first=True)),
        bases={FULL: ("global_rope_theta",), SLIDING: ("local_rope_theta",)},
        window=both_ways("local_attention"),
        ignored=("position_embedding_type",),
        causal=False,
    ),
}
