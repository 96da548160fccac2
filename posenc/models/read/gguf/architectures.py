"""The architectures of llama.cpp, each as what its code does with positions.

Source: github.com/ggml-org/llama.cpp, `llama_model_rope_type` and `load_hparams` of
src/llama-model.cpp, src/models/*.cpp, and convert_hf_to_gguf.py for what it permutes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from posenc.frequencies import magnitude
from posenc.models.keys import Sourced
from posenc.models.read.decoder import (
    Decoder,
    both_ways,
    by_head_dim,
    none_turns,
    one,
    only_sliding_turns,
)
from posenc.models.read.gguf.rules import (
    chunked,
    chunks_turn,
    every_fourth,
    gain_in_scale,
    head_dim_by_kind,
    inverse_scale,
    large_slides,
    llama4_temper,
    ministral_temper,
    output_scale,
    own_keys,
    slides,
    small_turns,
    stated_scale,
    three_of_four_turn,
    where_asked,
    width_scale,
)
from posenc.models.read.kinds import FULL, SLIDING
from posenc.models.read.rope import Sections

Gain = Callable[[float, float], float]


@dataclass(frozen=True)
class Architecture:
    """What llama.cpp does with files of an architecture, as far as the file does not say.

    permuted: its converter reorders q and k of transformers' files, whose pairs are halves apart,
    so that pairs are consecutive. alibi: the largest bias of so many layers, where the file names
    none; 0 is no bias. rows: a trained vector for each position is added to the input.
    ramp: the ends of YaRN's ramp are read from the file, and this is where it ends without.
    gain: YaRN's for cos and sin, of its factor and rope.scaling.yarn_log_multiplier, where that
    is read. whole_heads: heads of several sizes turn whole. apart: the last
    nextn_predict_layers of the blocks are no layers of the model.
    """

    decoder: Decoder
    permuted: bool = False
    alibi: Callable[[int], float] = lambda layers: 0.0
    rows: bool = False
    ramp: float | None = None
    gain: Gain | None = None
    whole_heads: bool = False
    apart: bool = False


# Layers that slide have a base of their own where the file says so, or always.
_BASES = {SLIDING: ("rope_local_base_freq", "rope_theta"), FULL: ("rope_theta",)}
_TWO_BASES = {SLIDING: ("rope_local_base_freq",), FULL: ("rope_theta",)}
_LOCAL = {"rope_theta": 10_000.0, "rope_local_base_freq": 10_000.0}
_ONLY_FULL = frozenset({FULL})
_EACH_SIDE = both_ways("sliding_window")

_HALF = Decoder({"rope_theta": 10_000.0}, scale=stated_scale, bases=_BASES)
_PAIRS = replace(_HALF, layout="interleaved")
_STILL = replace(_HALF, turned=none_turns)
_LATENT = replace(_PAIRS, latent=True, key_heads=own_keys, scale=by_head_dim)
_BOTH_WAYS = replace(_HALF, causal=False)
_TWO = replace(_HALF, silent=_LOCAL, bases=_TWO_BASES, scaled=_ONLY_FULL)
_GEMMA3 = slides(_TWO, 6, scale=width_scale(62))
_LINEAR = replace(
    _HALF,
    silent={**_HALF.silent, "full_attention_interval": 4},
    kinds=every_fourth("linear_attention"),
)
_WINDOW = {**_HALF.silent, "sliding_window": 4096}
_GROK = {**_HALF.silent, "attention.output_scale": 0.08838834764831845}


def _each(names: str, architecture: Architecture) -> dict[str, Architecture]:
    return dict.fromkeys(names.split(), architecture)


def _eight(layers: int) -> float:
    return 8.0


ARCHITECTURES: Mapping[str, Architecture] = {
    **_each(
        "llama deci internlm2 minicpm xverse olmo arctic deepseek chameleon solar bailingmoe arcee",
        Architecture(_PAIRS, permuted=True),
    ),
    **_each("command-r chatglm glm4 ernie4_5 ernie4_5-moe", Architecture(_PAIRS)),
    **_each(
        "falcon dbrx stablelm bitnet qwen qwen2 qwen2moe qwen3 qwen3moe olmoe phi2 phi3 phimoe"
        " plamo plamo2 gemma starcoder2 openelm gptneox codeshell orion nemotron exaone dots1"
        " hunyuan-moe hunyuan-dense lfm2 lfm2moe seed_oss grovemoe apertus minimax-m2 cogvlm"
        " pangu-embedded",
        Architecture(_HALF),
    ),
    **_each("glm4moe bailingmoe2", Architecture(_HALF, apart=True)),
    **_each(
        "granite granitemoe granitehybrid",
        Architecture(replace(_PAIRS, turned=where_asked), permuted=True),
    ),
    **_each("llada llama-embed", Architecture(replace(_PAIRS, causal=False), permuted=True)),
    "neo-bert": Architecture(replace(_PAIRS, causal=False)),
    **_each(
        "dream llada-moe rnd1 nomic-bert nomic-bert-moe jina-bert-v3 eurobert",
        Architecture(_BOTH_WAYS),
    ),
    "smollm3": Architecture(replace(_PAIRS, turned=three_of_four_turn), permuted=True),
    "mistral3": Architecture(
        replace(_PAIRS, temper=ministral_temper),
        permuted=True,
        ramp=32.0,
        gain=lambda factor, strength: magnitude(factor, 1.0) / magnitude(factor, strength),
    ),
    "llama4": Architecture(
        replace(
            _PAIRS,
            silent={**_PAIRS.silent, "attention_chunk_size": 8192},
            kinds=chunked,
            turned=chunks_turn,
            temper=llama4_temper,
        )
    ),
    "cohere2": Architecture(slides(_PAIRS, 4, turned=only_sliding_turns)),
    "deepseek2": Architecture(
        replace(_LATENT, scale=gain_in_scale, temper=ministral_temper),
        gain=lambda factor, strength: 1.0,
    ),
    "plm": Architecture(_LATENT),
    "minicpm3": Architecture(replace(_LATENT, layout="half")),
    "kimi-linear": Architecture(replace(_LATENT, turned=none_turns)),
    "grok": Architecture(replace(_HALF, silent=_GROK, scale=output_scale), ramp=8.0),
    "falcon-h1": Architecture(
        replace(_HALF, beyond=("a state-space mixer stands beside the attention",))
    ),
    "qwen2vl": Architecture(replace(_HALF, sections=Sections((16, 24, 24)))),
    **_each(
        "qwen3vl qwen3vlmoe",
        Architecture(replace(_HALF, sections=Sections((24, 20, 20), interleaved=True))),
    ),
    "qwen3next": Architecture(_LINEAR),
    **_each(
        "qwen35 qwen35moe",
        Architecture(
            replace(_LINEAR, sections=Sections((11, 11, 10), interleaved=True)), apart=True
        ),
    ),
    "gemma2": Architecture(slides(replace(_HALF, silent=_WINDOW), 2, scale=width_scale(46))),
    "gemma3": Architecture(_GEMMA3),
    "gemma3n": Architecture(slides(_TWO, 5, scale=one)),
    "gemma4": Architecture(
        replace(_GEMMA3, scale=one, head_dim=head_dim_by_kind), whole_heads=True
    ),
    "gemma-embedding": Architecture(
        replace(_GEMMA3, scale=by_head_dim, window=_EACH_SIDE, causal=False)
    ),
    "modern-bert": Architecture(slides(_TWO, 3, first=True, window=_EACH_SIDE, causal=False)),
    "plamo3": Architecture(slides(_TWO, 8)),
    "olmo2": Architecture(slides(replace(_HALF, scaled=_ONLY_FULL), 4)),
    "gpt-oss": Architecture(slides(_HALF, 2, sink_logits=True)),
    "exaone4": Architecture(
        large_slides(replace(_HALF, silent=_WINDOW, turned=only_sliding_turns))
    ),
    "exaone-moe": Architecture(slides(_HALF, 4, turned=only_sliding_turns), apart=True),
    "afmoe": Architecture(slides(_HALF, 4, turned=three_of_four_turn)),
    "smallthinker": Architecture(
        slides(
            _HALF,
            4,
            first=True,
            turned=only_sliding_turns,
            window=lambda keys: Sourced(4096, f"always in {keys.owner}"),
        )
    ),
    "baichuan": Architecture(
        replace(_PAIRS, turned=small_turns),
        permuted=True,
        alibi=lambda layers: 8.0 if layers == 40 else 0.0,
    ),
    **_each("bloom refact", Architecture(_STILL, alibi=_eight)),
    "jais": Architecture(replace(_STILL, scale=inverse_scale), alibi=_eight),
    "mpt": Architecture(_STILL, alibi=_eight, rows=True),
    "jina-bert-v2": Architecture(replace(_STILL, causal=False), alibi=_eight),
    **_each("gpt2 starcoder", Architecture(_STILL, rows=True)),
    "bert": Architecture(replace(_STILL, causal=False), rows=True),
    **_each("jamba nemotron_h nemotron_h_moe", Architecture(_STILL)),
}

# Every layer holds a state in place of keys.
STATEFUL = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
ENCODER_DECODERS = frozenset({"t5", "t5encoder"})
