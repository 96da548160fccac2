"""What the layer's input says of padding reaches no weight of an encoding that reads it."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Context, Encoding, Positions
from posenc.lowering import Lowerable, flatten
from posenc.padding import of_real
from posenc.parallel.ring import ring
from posenc.parallel.sharded import Sharded
from posenc.parallel.simulator import Simulator
from posenc.parallel.ulysses import ulysses
from tests.support.oracles import drawing
from tests.support.rings import in_parts, joined

WIDTH, HEADS, DIM, LENGTH = 12, 4, 6, 7
ENCODINGS: dict[str, Lowerable] = {
    "forget gate": pe.ForgetGate(WIDTH, HEADS),
    "cable": pe.CABLE(WIDTH, HEADS),
    "mamba 3": pe.Mamba3Rotary(WIDTH, HEADS, DIM),
    "selective": pe.SelectiveRotary(WIDTH, HEADS, DIM, rank=5, conv=3, gate=True),
    "path": pe.PaTH(WIDTH, HEADS, DIM, rank=3),
    "relative projection": pe.RelativeProjection(WIDTH, HEADS, extent=4, rank=3),
    "two": [pe.ForgetGate(WIDTH, HEADS), pe.Mamba3Rotary(WIDTH, HEADS, DIM)],
}
MASKS = {"left": [0, 0, 1, 1, 1, 1, 1], "right": [1, 1, 1, 1, 1, 0, 0]}


def spoilt(mask: Tensor, value: float) -> tuple[list[Tensor], Tensor]:
    """q, k, v and the layer's input, which is `value` where a token is padding."""
    draw = drawing(5)
    qkv = [draw(2, HEADS, LENGTH, DIM).float() for _ in range(3)]
    x = draw(2, LENGTH, WIDTH).float()
    return qkv, x.masked_fill(~mask[..., None].bool(), value)


def gradients(encoding: Lowerable, out: Tensor, real: Tensor, x: Tensor) -> list[Tensor]:
    """The loss over real rows, and its gradients by x and by what the encoding learns."""
    loss = out.sin().masked_fill(~real[:, None, :, None], 0.0).sum()
    parts = [part for part in flatten(encoding) if isinstance(part, Encoding)]
    learned = [parameter for part in parts for parameter in part.parameters()]
    return [loss, *torch.autograd.grad(loss, [x, *learned])]


@pytest.mark.parametrize("side", MASKS)
@pytest.mark.parametrize("name", ENCODINGS)
def test_nan_in_padding_is_as_zeros(name: str, side: str) -> None:
    encoding, mask = ENCODINGS[name], torch.tensor([MASKS[side], [1] * LENGTH])
    real, positions = mask.bool(), Positions.build(attention_mask=mask, causal=True)

    def attended(value: float) -> list[Tensor]:
        qkv, x = spoilt(mask, value)
        context = Context(x.requires_grad_())
        out = pe.attend(*qkv, encoding, positions=positions, context=context)
        return gradients(encoding, out, real, x)

    def lowered(value: float) -> list[Tensor]:
        qkv, x = spoilt(mask, value)
        terms = pe.lower(encoding, positions, context=Context(x.requires_grad_()))
        return gradients(encoding, pe.attend(*qkv, terms), real, x)

    def decoded(value: float) -> list[Tensor]:
        qkv, x = spoilt(mask, value)
        x, cache, outs = x.requires_grad_(), pe.Cache("raw"), []
        for first, last in ((0, 4), (4, LENGTH)):
            now = slice(first, last)
            new = last - first
            at = Positions.build(new, attention_mask=mask[:, :last], causal=True)
            part = [tensor[:, :, now] for tensor in qkv]
            context = Context(x[:, now])
            outs.append(pe.attend(*part, encoding, positions=at, context=context, cache=cache))
        return gradients(encoding, torch.cat(outs, dim=2), real, x)

    expected = attended(0.0)
    assert all(one.abs().max() > 0 for one in expected[1:])
    for run in (attended, lowered, decoded):
        for got, wanted in zip(run(torch.nan), expected, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_ranks_leave_it_out_too() -> None:
    gate, mask = pe.ForgetGate(WIDTH, HEADS), torch.tensor([[1] * 6 + [0] * 2, [1] * 8])
    sharded = Sharded(Positions.build(attention_mask=mask, causal=True), 2)
    draw = drawing(6)
    qkv = [draw(2, HEADS, 8, DIM).float() for _ in range(3)]
    x = draw(2, 8, WIDTH).float().masked_fill(~mask[..., None].bool(), torch.nan)
    for way in (ring, ulysses):
        outs = in_parts(way, Simulator(2), gate, qkv, Context(x), sharded)
        out = joined(outs, sharded).masked_fill(~mask[:, None, :, None].bool(), 0.0)
        assert all(
            one.isfinite().all() for one in torch.autograd.grad(out.sum(), gate.parameters())
        )


def test_a_row_for_all_is_of_tokens_that_are_real_in_any() -> None:
    gate, mask = pe.ForgetGate(WIDTH, HEADS), torch.tensor([[0, 1, 1, 1], [0, 0, 1, 1]])
    x = drawing(7)(1, 4, WIDTH).float()
    kept = of_real(x, Positions.build(attention_mask=mask, causal=True))
    assert torch.equal(kept[0, 0], torch.zeros(WIDTH))
    assert torch.equal(kept[0, 1:], x[0, 1:])
    at = Positions.build(attention_mask=mask.repeat(2, 1)[:3], causal=True)
    q = torch.zeros(2, HEADS, 4, DIM)
    with pytest.raises(pe.PositionsError, match="a batch of 3"):
        pe.attend(q, q, q, gate, positions=at, context=Context(x.repeat(2, 1, 1)))
