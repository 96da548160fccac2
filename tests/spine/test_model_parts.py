"""The parts of the small Transformer: its embedding and its attention."""

import math

import pytest
import torch
from torch import Tensor, nn

import posenc as pe
from posenc import (
    Attention,
    Encoding,
    Positions,
    PositionsError,
    SettingError,
    ShapeError,
    Transformer,
    TransformerEmbedding,
)

SIZES = {"vocab_size": 13, "dim": 32, "depth": 3, "heads": 4}
TOKENS = torch.arange(18).view(2, 9) * 5 % 13


def test_tokens_are_scaled_by_the_root_of_dim_and_positions_are_not() -> None:
    embedding = TransformerEmbedding(13, 32, encoding=pe.Sinusoidal(32)).double()
    expected = embedding.token.weight[TOKENS] * math.sqrt(32)
    for position in range(9):
        for i in range(16):
            angle = position / 10_000 ** (2 * i / 32)
            expected[:, position, 2 * i] += math.sin(angle)
            expected[:, position, 2 * i + 1] += math.cos(angle)
    torch.testing.assert_close(embedding(TOKENS), expected)


def test_scaled_tokens_have_a_deviation_of_one() -> None:
    torch.manual_seed(0)
    embedding = TransformerEmbedding(1000, 64)
    assert abs(embedding(torch.arange(1000)[None]).std().item() - 1.0) < 0.02


def test_concat_is_projected_back() -> None:
    encoding = [pe.Sinusoidal(8, merge="concat"), pe.Learned(6, max_length=9, merge="concat")]
    embedding = TransformerEmbedding(13, 32, encoding=encoding).double()
    assert embedding.project.weight.shape == (32, 32 + 8 + 6)
    x = embedding.token.weight[TOKENS] * math.sqrt(32)
    for part in encoding:
        x = part.embed(x, None)
    torch.testing.assert_close(embedding(TOKENS), embedding.project(x))
    assert isinstance(TransformerEmbedding(13, 32, encoding=pe.Learned(32, 9)).project, nn.Identity)


def test_dropout_comes_last_and_in_training_alone() -> None:
    torch.manual_seed(0)
    embedding = TransformerEmbedding(13, 512, encoding=pe.Sinusoidal(512), dropout=0.25)
    x, dropped = embedding.eval()(TOKENS), embedding.train()(TOKENS)
    gone = dropped == 0
    assert abs(gone.double().mean().item() - 0.25) < 0.02
    torch.testing.assert_close(dropped[~gone], x[~gone] / 0.75)


def test_an_embedding_has_a_longest_input() -> None:
    embedding = TransformerEmbedding(13, 32, max_length=9, encoding=pe.Rotary(8))
    assert embedding(TOKENS).shape == (2, 9, 32)
    with pytest.raises(PositionsError, match=r"max_length=9\) got 10 tokens"):
        embedding(torch.zeros(1, 10).long())
    # While decoding, what counts is where the tokens are.
    with pytest.raises(PositionsError, match="got 12 tokens"):
        embedding(torch.zeros(1, 1).long(), Positions.build(1, 12))


def test_an_embedding_follows_positions() -> None:
    learned = pe.Learned(32, max_length=20)
    embedding = TransformerEmbedding(13, 32, encoding=learned)
    at = torch.tensor([7, 7, 0, 19])
    out = embedding(TOKENS[:, :4], Positions.build(ids=at))
    expected = embedding.token(TOKENS[:, :4]) * math.sqrt(32) + learned.weight[at]
    torch.testing.assert_close(out, expected)
    decoding = embedding(TOKENS[:, :2], Positions.build(2, 6))
    expected = embedding.token(TOKENS[:, :2]) * math.sqrt(32) + learned.weight[4:6]
    torch.testing.assert_close(decoding, expected)


def test_attention_is_project_attend_project() -> None:
    torch.manual_seed(0)
    shaw = pe.Shaw(8, clip=2)
    layer = Attention(32, 4, [pe.Rotary(8), shaw], kv_heads=2).double()
    x = torch.randn(2, 5, 32, dtype=torch.float64)

    def heads(weight: Tensor, count: int) -> Tensor:
        return (x @ weight.T).view(2, 5, count, 8).transpose(1, 2)

    q = heads(layer.query.weight, 4)
    k, v = heads(layer.key.weight, 2), heads(layer.value.weight, 2)
    out = pe.attend(q, k, v, [pe.Rotary(8), shaw], causal=True)
    expected = out.transpose(1, 2).reshape(2, 5, 32) @ layer.out.weight.T
    torch.testing.assert_close(layer(x), expected)
    assert {"encodings.1.keys_weight", "encodings.1.values_weight"} < set(layer.state_dict())


def test_attention_is_causal_unless_told() -> None:
    x = torch.randn(1, 5, 32)
    changed = x.clone()
    changed[:, 3:] += 1
    for causal in (True, False):
        layer = Attention(32, 4, pe.ALiBi(4), causal=causal)
        same = torch.isclose(layer(x), layer(changed)).all(-1)[0].tolist()
        assert same == [causal, causal, causal, False, False]


def test_attention_drops_weights_in_training_alone() -> None:
    layer, x = Attention(32, 4, pe.NoPE(), dropout=0.5), torch.randn(1, 5, 32)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((30, 4), r"dim=30, heads=4, kv_heads=4\): dim must be a multiple"),
        ((32, 4, None, 3), r"heads=4, kv_heads=3\)"),
    ],
)
def test_attention_wants_sizes_that_divide(sizes: tuple, said: str) -> None:
    dim, heads, *rest = sizes
    settings = {"kv_heads": rest[1]} if rest else {}
    with pytest.raises(SettingError, match=said):
        Attention(dim, heads, **settings)


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        (pe.ALiBi(8), r"ALiBi\(heads=8.*made for heads=8, but q has heads=4"),
        (pe.T5Bias(2), "heads=2, but q has heads=4"),
        (pe.Rotary(4), "head_dim=4, but q has head_dim=8"),
        (pe.Shaw(16), "head_dim=16"),
    ],
    ids=repr,
)
def test_an_encoding_of_other_sizes_is_refused_before_any_work(
    encoding: Encoding, said: str
) -> None:
    with pytest.raises(ShapeError, match=said):
        Attention(32, 4, encoding)
    with pytest.raises(ShapeError, match=said):
        Transformer(**SIZES, encoding=encoding)
    with pytest.raises(ShapeError, match=said):
        Transformer(**SIZES, encoding=lambda layer: encoding if layer else pe.NoPE())
