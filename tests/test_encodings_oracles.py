"""The members against the code of others (transformers, where installed) and against mpmath."""

from types import SimpleNamespace

import mpmath
import pytest
import torch
from torch import Tensor, nn

import posenc as pe
from posenc import ALiBi, Positions, Rotary, Shaw, Sinusoidal, T5Bias, attend, rotate
from tests.oracles import drawing

LENGTH, HEADS, DIM = 17, 4, 8


@pytest.fixture(scope="module")
def hf() -> SimpleNamespace:
    """The modules of transformers that are compared with; the import takes seconds."""
    pytest.importorskip("transformers")
    from transformers.models.bloom import modeling_bloom
    from transformers.models.gpt_neox import GPTNeoXConfig, modeling_gpt_neox
    from transformers.models.gptj import modeling_gptj
    from transformers.models.llama import LlamaConfig, modeling_llama
    from transformers.models.mpt import modeling_mpt
    from transformers.models.t5 import T5Config, modeling_t5
    from transformers.models.wav2vec2_bert import Wav2Vec2BertConfig, modeling_wav2vec2_bert

    return SimpleNamespace(
        bloom=modeling_bloom,
        neox=modeling_gpt_neox,
        neox_config=GPTNeoXConfig,
        gptj=modeling_gptj,
        llama=modeling_llama,
        llama_config=LlamaConfig,
        mpt=modeling_mpt,
        t5=modeling_t5,
        t5_config=T5Config,
        shaw=modeling_wav2vec2_bert,
        shaw_config=Wav2Vec2BertConfig,
    )


def qk(dim: int = DIM) -> tuple[Tensor, Tensor]:
    draw = drawing(3)
    return draw(2, HEADS, LENGTH, dim).float(), draw(2, 2, LENGTH, dim).float()


# Their angles are float32.
CLOSE = {"rtol": 0, "atol": 1e-5}


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_half_layout_is_that_of_llama(hf: SimpleNamespace, base: float) -> None:
    config = hf.llama_config(
        hidden_size=HEADS * DIM,
        num_attention_heads=HEADS,
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )
    q, k = qk()
    at = torch.stack([torch.arange(LENGTH), torch.arange(LENGTH) + 5])
    waves = hf.llama.LlamaRotaryEmbedding(config)(q, at)
    expected = hf.llama.apply_rotary_pos_emb(q, k, *waves)
    actual = rotate(q, k, Rotary(DIM, base=base), positions=Positions.build(ids=at))
    for got, wanted in zip(actual, expected, strict=True):
        torch.testing.assert_close(got, wanted, **CLOSE)


@pytest.mark.parametrize("turned", [DIM, 4])
def test_interleaved_layout_is_that_of_gpt_j(hf: SimpleNamespace, turned: int) -> None:
    q, k = qk()
    sin, cos = hf.gptj.create_sinusoidal_positions(LENGTH, turned)[None].chunk(2, dim=-1)
    rotary = Rotary(DIM, layout="interleaved", rotary_dim=turned)
    for got, x in zip(rotate(q, k, rotary), (q, k), strict=True):
        # GPT-J keeps tokens before heads.
        part = hf.gptj.apply_rotary_pos_emb(x.transpose(1, 2)[..., :turned], sin, cos)
        expected = torch.cat((part.transpose(1, 2), x[..., turned:]), dim=-1)
        torch.testing.assert_close(got, expected, **CLOSE)


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_partial_turning_is_that_of_gpt_neox(hf: SimpleNamespace, share: float) -> None:
    parameters = {
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "partial_rotary_factor": share,
    }
    config = hf.neox_config(
        hidden_size=HEADS * 16, num_attention_heads=HEADS, rope_parameters=parameters
    )
    q, k = qk(16)
    at = torch.arange(LENGTH)[None]
    waves = hf.neox.GPTNeoXRotaryEmbedding(config)(q, at)
    expected = hf.neox.apply_rotary_pos_emb(q, k, *waves)
    actual = rotate(q, k, Rotary(16, rotary_dim=int(16 * share)))
    for got, wanted in zip(actual, expected, strict=True):
        torch.testing.assert_close(got, wanted, **CLOSE)


@pytest.mark.parametrize("heads", range(1, 33))
def test_slopes_are_those_of_bloom_and_mpt(hf: SimpleNamespace, heads: int) -> None:
    slopes = torch.tensor(ALiBi(heads).slope_values(), dtype=torch.float64)
    bloom = hf.bloom.build_alibi_tensor(torch.ones(1, 2), heads, torch.float64)
    torch.testing.assert_close(slopes, bloom[:, 0, 1], rtol=1e-6, atol=0)
    mpt = hf.mpt.build_mpt_alibi_tensor(heads, 2)
    torch.testing.assert_close(slopes, -mpt[:, 0, 0].double(), rtol=1e-6, atol=0)


def test_biases_are_those_of_mpt_for_the_last_query(hf: SimpleNamespace) -> None:
    q = torch.zeros(1, 12, 1, DIM)
    k = torch.zeros(1, 12, LENGTH, DIM)
    expected = hf.mpt.build_mpt_alibi_tensor(12, LENGTH)
    torch.testing.assert_close(pe.scores(q, k, ALiBi(12), causal=True)[0], expected)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_are_those_of_t5(hf: SimpleNamespace, bidirectional: bool) -> None:
    distance = torch.arange(-700, 701)
    for buckets, farthest in ((32, 128), (32, 20), (8, 20), (64, 512), (4, 3), (54, 125)):
        expected = hf.t5.T5Attention._relative_position_bucket(
            distance, bidirectional, buckets, farthest
        )
        made = T5Bias(1, buckets, farthest, bidirectional)
        assert torch.equal(made.bucket(distance), expected), (buckets, farthest)


@pytest.mark.parametrize("decoder", [True, False])
def test_a_t5_layer_forward_and_backward(hf: SimpleNamespace, decoder: bool) -> None:
    torch.manual_seed(0)
    config = hf.t5_config(
        d_model=24, d_kv=DIM, num_heads=HEADS, dropout_rate=0.0, is_decoder=decoder,
        relative_attention_num_buckets=8, relative_attention_max_distance=12,
        attn_implementation="eager",
    )  # fmt: skip
    layer = hf.t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    encoding = T5Bias(HEADS, 8, 12, bidirectional=not decoder).double()
    with torch.no_grad():
        layer.relative_attention_bias.weight.copy_(drawing(5)(8, HEADS))
        encoding.weight.copy_(layer.relative_attention_bias.weight)
    x = drawing(4)(2, LENGTH, 24).requires_grad_()
    # The layer is given its causal mask from outside.
    mask = torch.zeros(1, 1, LENGTH, LENGTH, dtype=torch.float64)
    if decoder:
        mask = mask.masked_fill(torch.ones(LENGTH, LENGTH).triu(1) > 0, -torch.inf)
    expected, _, _ = layer(x, mask)

    def heads(linear: nn.Linear) -> Tensor:
        return linear(x).unflatten(-1, (HEADS, DIM)).transpose(1, 2)

    # T5 does not divide by the root of the head dimension.
    for backend in ("sdpa", "reference"):
        out = attend(
            heads(layer.q), heads(layer.k), heads(layer.v), encoding,
            causal=decoder, scale=1.0, backend=backend,
        )  # fmt: skip
        actual = layer.o(out.transpose(1, 2).flatten(-2))
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
        leaves = [x, layer.q.weight, layer.k.weight, layer.v.weight, layer.o.weight]
        ours = torch.autograd.grad(actual.sin().sum(), [*leaves, encoding.weight])
        theirs = torch.autograd.grad(
            expected.sin().sum(), [*leaves, layer.relative_attention_bias.weight], retain_graph=True
        )
        for got, wanted in zip(ours, theirs, strict=True):
            torch.testing.assert_close(got, wanted, rtol=0, atol=1e-11)
    default = attend(heads(layer.q), heads(layer.k), heads(layer.v), encoding, causal=decoder)
    assert not torch.allclose(layer.o(default.transpose(1, 2).flatten(-2)), expected, atol=0.1)


def test_a_layer_of_relative_keys_is_that_of_wav2vec2_bert(hf: SimpleNamespace) -> None:
    torch.manual_seed(0)
    config = hf.shaw_config(
        hidden_size=HEADS * DIM, num_attention_heads=HEADS, attention_dropout=0.0,
        position_embeddings_type="relative_key", left_max_position_embeddings=3,
        right_max_position_embeddings=3, attn_implementation="eager",
    )  # fmt: skip
    layer = hf.shaw.Wav2Vec2BertSelfAttention(config).double()
    shaw = Shaw(DIM, clip=3, values=False).double()
    with torch.no_grad():
        shaw.keys_weight.copy_(layer.distance_embedding.weight)
    x = drawing(4)(2, LENGTH, HEADS * DIM)
    q, k, v = (
        linear(x).unflatten(-1, (HEADS, DIM)).transpose(1, 2)
        for linear in (layer.linear_q, layer.linear_k, layer.linear_v)
    )
    out = attend(q, k, v, shaw)
    expected, _ = layer(x)
    actual = layer.linear_out(out.transpose(1, 2).flatten(-2))
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


FAR = [10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 2**31 - 1]


def worst_wave(waves: Tensor, position: int, base: int = 10_000) -> float:
    """The largest error of (cos, sin) pairs (r, 2) at a position, against 50 digits."""
    pairs, worst = waves.shape[0], 0.0
    with mpmath.workdps(50):
        for r, (cos, sin) in enumerate(waves.tolist()):
            angle = position * mpmath.mpf(base) ** (-mpmath.mpf(r) / pairs)
            worst = max(worst, abs(mpmath.cos(angle) - cos), abs(mpmath.sin(angle) - sin))
    return float(worst)


def allowed(position: int) -> float:
    """One rounding to float32 up to 1e8; at 2**31 - 1 what a float64 angle still holds."""
    return 6e-8 if position <= 10**8 else 4e-7


@pytest.mark.parametrize("position", FAR)
def test_rotary_waves_are_right_far_out(position: int) -> None:
    x = torch.zeros(1, 1, 1, 64)
    x[..., :32] = 1.0
    positions = Positions.build(ids=torch.tensor([position]))
    turned = rotate(x, x, Rotary(64), positions=positions)[0].view(2, 32)
    assert worst_wave(turned.T, position) <= allowed(position)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("position", FAR)
def test_sinusoidal_waves_are_right_far_out(position: int, layout: str) -> None:
    table = Sinusoidal(64, layout=layout).embed(torch.zeros(1, 1, 64), torch.tensor([position]))
    waves = table.view(2, 32).T if layout == "half" else table.view(32, 2)
    assert worst_wave(waves.flip(-1), position) <= allowed(position)
