"""EnhancedMaskDecoder: absolute positions in the queries alone, one block for every pass."""

import math

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import (
    EnhancedMaskDecoder,
    Positions,
    PositionsError,
    SettingError,
    ShapeError,
    UnsupportedError,
)
from posenc.model import Block
from tests.support.oracles import drawing


def decoder(encoding: object = None, passes: int = 2, dim: int = 16) -> EnhancedMaskDecoder:
    """A float64 decoder of 2 heads whose weights all say something."""
    torch.manual_seed(1)
    made = EnhancedMaskDecoder(dim, 2, 12, encoding, passes=passes).double().eval()
    draw = drawing(2)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * draw(*parameter.shape))
    return made


def hidden(length: int = 7, dim: int = 16) -> Tensor:
    return drawing(5)(2, length, dim)


@torch.no_grad()
def test_the_formula_in_plain_loops() -> None:
    made, x = decoder(pe.ALiBi(2)), hidden(5)
    block, attention = made.block, made.block.attention

    def times(weight: Tensor, row: Tensor) -> Tensor:
        return torch.stack([(line * row).sum() for line in weight])

    def normed(norm: torch.nn.LayerNorm, row: Tensor) -> Tensor:
        centred = row - row.mean()
        return centred / (centred.square().mean() + 1e-5).sqrt() * norm.weight + norm.bias

    for b in range(2):
        query = [x[b, i] + made.position.weight[i] for i in range(5)]
        memory = [normed(block.attention_norm, x[b, j]) for j in range(5)]
        for _ in range(2):
            out = []
            for i in range(5):
                seen = torch.zeros(0, dtype=torch.float64)
                asking = times(attention.query.weight, normed(block.attention_norm, query[i]))
                for h in range(2):
                    own = slice(8 * h, 8 * h + 8)
                    keys = [times(attention.key.weight, row)[own] for row in memory]
                    values = [times(attention.value.weight, row)[own] for row in memory]
                    slope = 2.0 ** (-4 * (h + 1))
                    p = [
                        math.exp((asking[own] @ key).item() / math.sqrt(8) - slope * abs(i - j))
                        for j, key in enumerate(keys)
                    ]
                    parts = [share / sum(p) * v for share, v in zip(p, values, strict=True)]
                    seen = torch.cat((seen, torch.stack(parts).sum(0)))
                y = query[i] + times(attention.out.weight, seen)
                wide = times(block.up.weight, normed(block.mlp_norm, y)) + block.up.bias
                gelu = [w * 0.5 * (1 + math.erf(w / math.sqrt(2))) for w in wide.tolist()]
                gelu = torch.tensor(gelu, dtype=torch.float64)
                out.append(y + times(block.down.weight, gelu) + block.down.bias)
            query = out
        torch.testing.assert_close(made(x)[b], torch.stack(query), rtol=0, atol=1e-9)


def test_without_positions_the_block_is_applied_to_itself_and_to_what_it_gave() -> None:
    x = hidden()
    for passes in (1, 2, 3):
        made = decoder(pe.Rotary(8), passes)
        torch.nn.init.zeros_(made.position.weight)
        lowered = pe.lower(pe.Rotary(8), 7, dtype=torch.float64)
        expected = made.block(x, lowered, None, None)
        for _ in range(passes - 1):
            expected = made.block(expected, lowered, None, None, memory=x)
        torch.testing.assert_close(made(x), expected)


def test_a_block_whose_memory_is_its_input_is_a_block() -> None:
    torch.manual_seed(3)
    block, x = Block(16, 2, 1, True, 0.0).double(), hidden()
    lowered = pe.lower(pe.ALiBi(2), 7, causal=True, dtype=torch.float64)
    plain = block(x, lowered, None, None)
    torch.testing.assert_close(block(x, lowered, None, None, memory=x), plain)
    other = block(x, lowered, None, None, memory=x.flip(1))
    assert not torch.allclose(other, plain)


def test_the_position_of_a_token_reaches_its_own_output_alone() -> None:
    """Keys and values hold no absolute position, in no pass."""
    made, x = decoder(pe.T5Bias(2, bidirectional=True)), hidden()
    before = made(x)
    with torch.no_grad():
        made.position.weight[3] += 1.0
    changed = (made(x) - before).abs().amax(dim=(0, 2))
    assert changed[3] > 0.1
    assert changed[[0, 1, 2, 4, 5, 6]].max() == 0


def test_positions_alone_tell_tokens_apart() -> None:
    made, x = decoder(), hidden()
    order = torch.tensor([3, 0, 6, 1, 2, 5, 4])
    assert not torch.allclose(made(x[:, order]), made(x)[:, order], atol=1e-3)
    torch.nn.init.zeros_(made.position.weight)
    torch.testing.assert_close(made(x[:, order]), made(x)[:, order])


def test_every_parameter_learns() -> None:
    made, x = decoder(pe.DeBERTa(16, 2, span=3)), hidden(12).requires_grad_()
    made(x).square().sum().backward()
    assert x.grad is not None
    for name, parameter in (*made.named_parameters(), ("x", x)):
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@pytest.mark.parametrize(
    "encoding", [pe.Rotary(8), pe.Shaw(8, clip=2), pe.TransformerXL(16, 2)], ids=repr
)
def test_an_encoding_of_the_encoder_serves_the_decoder_too(encoding: pe.Encoding) -> None:
    encoding = encoding.double()
    owner, x = decoder(encoding), hidden()
    guest = decoder()
    state = {k: v for k, v in owner.state_dict().items() if not k.startswith("encodings.")}
    guest.load_state_dict(state)
    torch.testing.assert_close(guest(x, encoding), owner(x))
    torch.testing.assert_close(guest(x, pe.lower(encoding, 7, dtype=torch.float64)), owner(x))


def test_the_layer_s_own_weights_project_what_deberta_reads() -> None:
    made, x = decoder(pe.DeBERTa(16, 2, span=3)), hidden()
    before = made(x)
    attention = made.block.attention
    q, k = (
        linear.weight.view(2, 8, 16) @ made.encodings[0].weight.T
        for linear in (attention.query, attention.key)
    )
    context = pe.Context(project_q=lambda _: q.mT, project_k=lambda _: k.mT)
    lowered = pe.lower(made.encodings[0], 7, context=context, dtype=torch.float64)
    torch.testing.assert_close(made(x, lowered), before)


def test_padding_changes_nothing_for_real_tokens() -> None:
    made, x = decoder(pe.ALiBi(2)), hidden(9)
    mask = torch.ones(2, 9)
    mask[:, :3] = 0
    out = made(x, positions=Positions.build(attention_mask=mask))
    torch.testing.assert_close(out[:, 3:], made(x[:, 3:]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_moves_to_another_dtype(dtype: torch.dtype) -> None:
    made = decoder(pe.DeBERTa(16, 2, span=3)).to(dtype)
    out = made(hidden().to(dtype))
    assert out.dtype == dtype
    exact = decoder(pe.DeBERTa(16, 2, span=3))
    exact.load_state_dict(made.state_dict())
    wanted = exact(hidden().to(dtype).double())
    error = (out.double() - wanted).abs().max() / wanted.abs().max()
    assert error <= 8 * torch.finfo(dtype).eps


@pytest.mark.graph
def test_it_compiles_and_exports_at_any_length() -> None:
    made = decoder(pe.DeBERTa(16, 2, span=3))
    torch._dynamo.reset()
    compiled = torch.compile(made, fullgraph=True, dynamic=True, backend="eager")
    length = torch.export.Dim("length", min=2, max=12)
    shapes = ({1: length},)
    exported = torch.export.export(made, (hidden(),), dynamic_shapes=shapes).module()
    for at in (2, 7, 12):
        torch.testing.assert_close(compiled(hidden(at)), made(hidden(at)))
        torch.testing.assert_close(exported(hidden(at)), made(hidden(at)))


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        ((16, 2, 0), {}, "max_length must be a whole number"),
        ((16, 2, 8), {"passes": 0}, r"EnhancedMaskDecoder\(passes=0\)"),
        ((15, 2, 8), {}, "dim must be a multiple of heads"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    arguments: tuple, settings: dict, said: str
) -> None:
    with pytest.raises(SettingError, match=said):
        EnhancedMaskDecoder(*arguments, **settings)


@pytest.mark.usefixtures("unhooked")
def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match="made for heads=4, but q has heads=2"):
        decoder(pe.ALiBi(4))
    with pytest.raises(PositionsError, match=r"max_length=12\) got positions up to 12"):
        decoder()(hidden(13))
    with pytest.raises(PositionsError, match="lowered with causal=True"):
        decoder()(hidden(), pe.lower(pe.ALiBi(2), 7, causal=True))
    with pytest.raises(PositionsError, match="built with causal=True"):
        decoder()(hidden(), positions=Positions.build(7, causal=True))
    with pytest.raises(UnsupportedError, match="Sinusoidal changes the embeddings"):
        decoder(pe.Sinusoidal(16))(hidden())
