"""What linear attention refuses: orders, encodings and sizes."""

from dataclasses import replace

import pytest
import torch

import posenc as pe
from posenc import (
    CacheError,
    Positions,
    PositionsError,
    SettingError,
    ShapeError,
    Tokens,
    UnsupportedError,
)
from posenc.linear.attention import linear_attention
from posenc.linear.step import linear_step
from posenc.lowering import Lowerable
from tests.support.linear import FORMS, close
from tests.support.oracles import drawing
from tests.support.term_examples import Sizes, inputs


def test_other_orders_need_the_parallel_form() -> None:
    """A state meets each key once; a mask of all pairs takes them as they come."""
    q, k, v = inputs(Sizes(batch=1, q_len=4, k_len=4), drawing(18))
    at, order = torch.arange(4), torch.tensor([2, 0, 3, 1])
    mixed = Positions(Tokens(at, order), Tokens(at, order), causal=True)
    out = linear_attention(q, k, v, pe.Rotary(10), positions=mixed, form="parallel")
    unsorted = [x[:, :, order.argsort()] for x in (q, k, v)]
    ids = Positions.build(ids=order.argsort(), causal=True)
    expected = linear_attention(*unsorted, pe.Rotary(10), positions=ids)
    close(out[:, :, order.argsort()], expected)
    again = torch.tensor([0, 1, 1, 0])
    torn = Tokens(at, document=again)
    sides = Positions(torn, torn), Positions(torn, Tokens(at, document=again.sort()[0]))
    for positions in (mixed, *sides):
        for form in FORMS[1:]:
            with pytest.raises(PositionsError, match="a state meets each key once"):
                linear_attention(q, k, v, pe.Rotary(10), positions=positions, form=form)


def test_queries_of_another_sequence_see_all_keys() -> None:
    s = Sizes(q_len=5, k_len=3)
    q, k, v = inputs(s, drawing(19))
    queries, keys = Tokens(torch.arange(5)), Tokens(torch.arange(3) * 2)
    across = Positions(queries, keys)
    outs = [linear_attention(q, k, v, pe.Rotary(10), positions=across, form=form) for form in FORMS]
    close(outs[1], outs[0])
    close(outs[2], outs[0])
    zeros = torch.zeros(5).long()
    packed = Positions(replace(queries, document=zeros), replace(keys, document=zeros[:3]))
    close(linear_attention(q, k, v, pe.Rotary(10), positions=packed, form="parallel"), outs[0])
    with pytest.raises(PositionsError, match=r'5 queries and 3 keys.*form="parallel"'):
        linear_attention(q, k, v, pe.Rotary(10), positions=packed)


REFUSED: dict[str, tuple[Lowerable, str]] = {
    "bias": (pe.ALiBi(6), r"\['Slope'\]"),
    "mask": ([pe.Rotary(10), pe.SlidingWindow(3)], r"\['Rotate', 'Mask'\]"),
    "zones": (pe.ReRoPE(10, window=2), r"\['Zones'\]"),
    "factors": (pe.XPos(10), "factors that differ by position"),
    "context": (pe.ForgetGate(60, 6), "changes scores"),
    "counts": (pe.CoPE(10), r"\['CountTable'\]"),
    "embedding": (pe.Sinusoidal(10), "embed"),
    "two": ([pe.Rotary(10), pe.Rotary(10)], "2 rotations"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_one_rotation_is_refused(name: str, form: str) -> None:
    q, k, v = inputs(Sizes(q_len=7), drawing(20))
    encoding, said = REFUSED[name]
    with pytest.raises(UnsupportedError, match=said):
        linear_attention(q, k, v, encoding, causal=True, form=form)
    with pytest.raises(UnsupportedError, match=said):
        linear_step(q, k, v, encoding)


@pytest.mark.usefixtures("unhooked")
def test_bad_calls_say_what_to_do() -> None:
    q, k, v = inputs(Sizes(q_len=7), drawing(21))
    rope = pe.Rotary(10)
    with pytest.raises(SettingError, match=r"form='scan'.*'recurrent'"):
        linear_attention(q, k, v, rope, form="scan")
    with pytest.raises(SettingError, match=r"chunk=0"):
        linear_attention(q, k, v, rope, chunk=0)
    with pytest.raises(ShapeError, match="grouped-query attention needs a multiple"):
        linear_attention(q[:, :5], k, v, rope)
    with pytest.raises(PositionsError, match="7 queries but only 6 keys"):
        linear_attention(q, k[:, :, :6], v[:, :, :6], rope, causal=True)
    rows = Positions.build(documents=torch.zeros(3, 7).long(), causal=True)
    with pytest.raises(PositionsError, match="a batch of 3, but q has 2 rows"):
        linear_attention(q, k, v, rope, positions=rows)
    padded = Positions.build(attention_mask=torch.tensor([[0, 1, 1, 1, 1, 1, 1]] * 3), causal=True)
    with pytest.raises(PositionsError, match="a batch of 3, but q has 2 rows"):
        linear_attention(q, k, v, rope, positions=padded)
    with pytest.raises(ShapeError, match="got 3 queries, 7 keys"):
        linear_step(q[:, :, :3], k, v, rope)
    with pytest.raises(SettingError, match=r"feature_map=None\): .*leave it away"):
        linear_attention(q, k, v, rope, feature_map=None)
    with pytest.raises(ShapeError, match="made a int out of q"):
        linear_attention(q, k, v, rope, feature_map=lambda _: 1)
    for state in ("x", pe.Cache()):
        with pytest.raises(CacheError, match=r"linear_step\(state=.*what linear_step returned"):
            linear_step(q, k, v, rope, state)
    open_both_ways = Positions.build(7)
    with pytest.raises(PositionsError, match="causal=True, but the positions were built with"):
        linear_step(q, k, v, rope, positions=open_both_ways)
    _, state = linear_step(q, k, v, rope)
    with pytest.raises(CacheError, match=r"\(2, 3, 10, 4\).*\(2, 3, 10, 3\).*one state per layer"):
        linear_step(q, k, v[..., :3], rope, state)
    for other in (torch.float32, torch.bfloat16):
        with pytest.raises(CacheError, match=r"a state of torch\.float64 on cpu, .*torch\.float32"):
            linear_step(*(x.to(other) for x in (q, k, v)), rope, state)
    with pytest.raises(CacheError, match=r"a state of .* on cpu, .* on meta"):
        linear_step(*(x.to("meta") for x in (q, k, v)), rope, state)
    packed = Positions.build(documents=torch.zeros(7).long(), causal=True)
    with pytest.raises(CacheError, match="the state is of tokens without"):
        linear_step(q, k, v, rope, state, positions=packed)
