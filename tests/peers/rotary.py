from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from posenc.attention import attend
from posenc.attention_parts import rotate
from posenc.encodings import Rotary
from posenc.encodings.scaling import (
    NTK,
    DynamicNTK,
    Linear,
    Llama3,
    LongRoPE,
    Proportional,
    Scaling,
    YaRN,
)
from posenc.testing.agreement import Case, peer
from tests.peers._layers import causal_mask, joined, split
from tests.peers._wide import in_float64

HEADS, KEY_HEADS, DIM = 12, 4, 80
# Tokens cached by a first call, tokens of the call that is compared.
STEPS = [(0, 1), (0, 19), (5, 6)]
# The original length of scalings that depend on length: of STEPS, one is shorter.
SHORT = 8

Setting = tuple[dict[str, Any], Scaling | None]


def yarns() -> Iterator[Setting]:
    """What transformers' rope_type "yarn" can be told, in its words and in ours."""
    chosen: list[dict[str, Any]] = [
        {},
        {"truncate": False},
        {"beta_fast": 20.0, "beta_slow": 2.0, "attention_factor": 1.3},
        {"mscale": 1.2, "mscale_all_dim": 0.7},
    ]
    for options in chosen:
        words = {"factor": 16.0, "original_max_position_embeddings": 4096}
        yield {"rope_type": "yarn", **words, **options}, YaRN(16.0, 4096, **options)


def rope_types() -> Iterator[Setting]:
    """Every rope_type of transformers for text, in its words and in ours."""
    yield {"rope_type": "default"}, None
    yield {"rope_type": "default", "rope_theta": 500_000.0}, None
    yield {"rope_type": "linear", "factor": 4.0}, Linear(4.0)
    yield {"rope_type": "dynamic", "factor": 2.0}, DynamicNTK(2.0, SHORT)
    yield from yarns()
    short, long = ([1 + i / step for i in range(DIM // 2)] for step in (100, 3))
    words = {"rope_type": "longrope", "short_factor": short, "long_factor": long, "factor": 4.0}
    words["original_max_position_embeddings"] = SHORT
    yield words, LongRoPE(short, long, SHORT, factor=4.0)
    yield words | {"attention_factor": 1.25}, LongRoPE(short, long, SHORT, 4.0, 1.25)
    words = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    yield (
        {"rope_type": "llama3", "original_max_position_embeddings": 8192, **words},
        Llama3(**words, original_length=8192),
    )
    yield {"rope_type": "proportional", "partial_rotary_factor": 0.3}, Proportional(0.3)


def llama_config(words: dict[str, Any]) -> Any:
    from transformers import LlamaConfig

    # What "dynamic" takes for the original length, others for the longest.
    length = SHORT if words["rope_type"] == "dynamic" else 1 << 16
    return LlamaConfig(
        hidden_size=24,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        head_dim=DIM,
        max_position_embeddings=length,
        rope_parameters={"rope_theta": 10_000.0, **words},
        attn_implementation="eager",
    )


@peer("rotary", "transformers")
def layer_of_llama() -> Iterator[Case]:
    """LlamaAttention, the whole layer, with every rope_type, its float32 steps in float64"""
    from transformers.models.llama import modeling_llama as llama

    def case(words: dict[str, Any], scaling: Scaling | None, past: int, new: int) -> Case:
        config = llama_config(words)
        layer = llama.LlamaAttention(config, layer_idx=0).double()
        with in_float64():
            waves = llama.LlamaRotaryEmbedding(config)

        def project(x: Tensor) -> list[Tensor]:
            q, k, v = layer.q_proj(x), layer.k_proj(x), layer.v_proj(x)
            return [split(q, HEADS), split(k, KEY_HEADS), split(v, KEY_HEADS)]

        def theirs(x: Tensor, at: Tensor, mask: Tensor, cache: object) -> Tensor:
            return layer(x, waves(x, at), mask, cache)[0]

        encoding = Rotary(DIM, config.rope_parameters["rope_theta"], scaling=scaling)
        return _layer(encoding, 24, past, new, project, layer.o_proj, theirs)

    for words, scaling in rope_types():
        for past, new in STEPS:
            # Keys that transformers has cached keep the frequencies of a shorter input.
            if not (past and words["rope_type"] in ("dynamic", "longrope")):
                yield case(words, scaling, past, new)


@peer("rotary", "transformers", forward=1e-6, cap="its frequencies and ramps are float32")
def frequencies_of_transformers() -> Iterator[Case]:
    """ROPE_INIT_FUNCTIONS as they are: gains, and frequencies relative to ours"""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    def case(words: dict[str, Any], scaling: Scaling, length: int) -> Case:
        wanted = Rotary(DIM, scaling=scaling).frequencies(torch.tensor([length]))
        make = ROPE_INIT_FUNCTIONS[words["rope_type"]]
        found, gain = make(llama_config(words), seq_len=length)
        # A pair that does not turn must not turn there either.
        ratio = torch.where(wanted == 0, 1.0 + found, found / wanted)
        return Case(
            f"{scaling!r} at length {length}",
            lambda: torch.cat((torch.ones_like(ratio), torch.tensor([scaling.gain]))),
            lambda: torch.cat((ratio, torch.tensor([gain]))),
        )

    for words, scaling in rope_types():
        if scaling is not None:
            yield from (case(words, scaling, length) for length in (SHORT, 5 * SHORT))


@peer("rotary", "transformers")
def layer_of_gpt_neox() -> Iterator[Case]:
    """GPTNeoXAttention, the whole layer, turned in part, its float32 steps in float64"""
    from transformers.models.gpt_neox import modeling_gpt_neox as neox

    def case(words: dict[str, Any], scaling: Scaling | None, past: int, new: int) -> Case:
        config = neox.GPTNeoXConfig(
            hidden_size=HEADS * DIM,
            num_attention_heads=HEADS,
            max_position_embeddings=1 << 16,
            rope_parameters={"rope_theta": 10_000.0, "partial_rotary_factor": 0.25, **words},
            attn_implementation="eager",
        )
        layer = neox.GPTNeoXAttention(config, layer_idx=0).double()
        with in_float64():
            waves = neox.GPTNeoXRotaryEmbedding(config)

        def project(x: Tensor) -> list[Tensor]:
            # Each head has its own q, k and v together.
            return list(split(layer.query_key_value(x), HEADS).chunk(3, dim=-1))

        def theirs(x: Tensor, at: Tensor, mask: Tensor, cache: object) -> Tensor:
            return layer(x, mask, cache, waves(x, at))[0]

        encoding = Rotary(DIM, rotary_dim=DIM // 4, scaling=scaling)
        return _layer(encoding, HEADS * DIM, past, new, project, layer.dense, theirs)

    for setting in ({"rope_type": "default"}, None), *yarns():
        yield from (case(*setting, *step) for step in STEPS)


@peer("rotary", "transformers")
def layer_of_gpt_j() -> Iterator[Case]:
    """GPTJAttention, the whole layer, interleaved and in part, its float32 steps in float64"""
    from transformers.models.gptj import modeling_gptj as gptj

    def case(turned: int, past: int, new: int) -> Case:
        config = gptj.GPTJConfig(
            n_embd=HEADS * DIM, n_head=HEADS, n_positions=64, rotary_dim=turned, attn_pdrop=0.0
        )
        with in_float64():
            layer = gptj.GPTJAttention(config, layer_idx=0).eval()

        def project(x: Tensor) -> list[Tensor]:
            return [split(made(x), HEADS) for made in (layer.q_proj, layer.k_proj, layer.v_proj)]

        def theirs(x: Tensor, at: Tensor, mask: Tensor, cache: object) -> Tensor:
            # Before transformers 5.24 the layer itself knew what turns.
            if not hasattr(gptj, "GPTJRotaryEmbedding"):
                return layer(x, cache, mask, at)[0]
            return layer(x, gptj.GPTJRotaryEmbedding(config)(x, at), mask, cache)[0]

        encoding = Rotary(DIM, layout="interleaved", rotary_dim=turned)
        return _layer(encoding, HEADS * DIM, past, new, project, layer.out_proj, theirs)

    for turned in (DIM, 64):
        yield from (case(turned, *step) for step in STEPS)


@peer("rotary", "transformers")
def layer_of_roformer() -> Iterator[Case]:
    """RoFormerSelfAttention, interleaved, causal and not, its float32 table in float64"""
    from transformers.models.roformer import modeling_roformer as roformer

    def case(length: int, causal: bool) -> Case:
        config = roformer.RoFormerConfig(
            hidden_size=HEADS * DIM,
            num_attention_heads=HEADS,
            attention_probs_dropout_prob=0.0,
            rotary_value=False,
        )
        layer = roformer.RoFormerSelfAttention(config).double()
        with in_float64(), mock.patch.object(torch, "FloatTensor", torch.DoubleTensor):
            made = roformer.RoFormerSinusoidalPositionalEmbedding(length, DIM)
            table = made.create_weight()[None, None]

        def ours(x: Tensor) -> Tensor:
            q, k, v = (split(linear(x), HEADS) for linear in (layer.query, layer.key, layer.value))
            return joined(attend(q, k, v, Rotary(DIM, layout="interleaved"), causal=causal))

        return Case(
            f"length {length}, causal={causal}",
            ours,
            lambda x: layer(x, causal_mask(length, causal), table)[0],
            [torch.randn(2, length, HEADS * DIM, dtype=torch.float64)],
        )

    yield from (case(length, causal) for length in (1, 19) for causal in (True, False))


@peer("rotary", "rotary-embedding-torch")
def turns_of_rotary_embedding_torch() -> Iterator[Case]:
    """rotate_queries_or_keys, in part, plain, interpolated and NTK, its float32 steps in float64"""
    from rotary_embedding_torch import RotaryEmbedding

    def case(scaling: Scaling | None, words: dict[str, float], length: int) -> Case:
        with in_float64():
            made = RotaryEmbedding(20, theta=500.0, **words)

        def theirs(x: Tensor) -> Tensor:
            with in_float64():
                return made.rotate_queries_or_keys(x)

        return _turned(scaling, length, theirs)

    for length in (1, 19):
        yield case(None, {}, length)
        yield case(Linear(4.0), {"interpolate_factor": 4.0}, length)
        yield case(NTK(8.0), {"theta_rescale_factor": 8.0}, length)


@peer("rotary", "x-transformers")
def turns_of_x_transformers() -> Iterator[Case]:
    """RotaryEmbedding, in part, plain, interpolated and NTK, its float32 steps in float64"""
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    def case(scaling: Scaling | None, words: dict[str, float], length: int) -> Case:
        with in_float64():
            made = RotaryEmbedding(20, base=500.0, **words)

        def theirs(x: Tensor) -> Tensor:
            with in_float64():
                return apply_rotary_pos_emb(x, *made.forward_from_seq_len(length))

        return _turned(scaling, length, theirs)

    for length in (1, 19):
        yield case(None, {}, length)
        yield case(Linear(4.0), {"interpolation_factor": 4.0}, length)
        yield case(NTK(8.0), {"base_rescale_factor": 8.0}, length)


def _layer(
    encoding: Rotary,
    width: int,
    past: int,
    new: int,
    project: Callable[[Tensor], list[Tensor]],
    out: Callable[[Tensor], Tensor],
    theirs: Callable[[Tensor, Tensor, Tensor, object], Tensor],
) -> Case:
    """`theirs` takes tokens, their positions, an additive mask and a cache of the first `past`."""

    def ours(x: Tensor) -> Tensor:
        q, k, v = project(x)
        return out(joined(attend(q[:, :, past:], k, v, encoding, causal=True)))

    def in_turn(x: Tensor) -> Tensor:
        from transformers import DynamicCache

        cache, mask = DynamicCache(), causal_mask(past + new, True)
        at = torch.arange(past + new).expand(len(x), -1)
        with in_float64():
            if past:
                theirs(x[:, :past], at[:, :past], mask[..., :past, :past], cache)
            return theirs(x[:, past:], at[:, past:], mask[..., past:, :], cache)

    x = torch.randn(2, past + new, width, dtype=torch.float64)
    return Case(f"{encoding!r}, {new} tokens after {past}", ours, in_turn, [x])


def _turned(scaling: Scaling | None, length: int, theirs: Callable[[Tensor], Tensor]) -> Case:
    """One tensor turned, 20 of its dimensions, which these libraries pair up as neighbours."""
    encoding = Rotary(DIM, 500.0, "interleaved", rotary_dim=20, scaling=scaling)
    x = torch.randn(2, HEADS, length, DIM, dtype=torch.float64)
    name = f"{encoding!r}, length {length}"
    return Case(name, lambda x: rotate(x, x, encoding)[0], theirs, [x])
