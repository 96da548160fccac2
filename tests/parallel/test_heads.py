"""A range of heads computes what the whole attention computes for these heads."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import ShapeError, attend, lower
from posenc import terms as t
from posenc.lowering import Lowered
from posenc.parallel.heads import heads_of, key_heads_of
from posenc.testing.fixtures import Trial, attends
from tests.support.oracles import drawing
from tests.support.term_examples import TERMS, Sizes, inputs

SQUARE = Sizes(q_len=7)


def check(qkv: tuple[Tensor, Tensor, Tensor], lowered: Lowered, learned: list[Tensor]) -> None:
    """Of the second group of query heads, and of one head in its midst."""
    leaves = [x.requires_grad_() for x in qkv]
    q, k, v = leaves
    heads, key_heads = q.shape[1], k.shape[1]
    group = heads // key_heads
    whole = attend(q, k, v, lowered)
    for first, count in ((group, group * (key_heads - 1)), (heads - 1, 1)):
        own, stop = first, first + count
        at, keys = key_heads_of(first, count, heads, key_heads)
        parts = q[:, own:stop], k[:, at : at + keys], v[:, at : at + keys]
        part = attend(*parts, heads_of(lowered, first, count))
        torch.testing.assert_close(part, whole[:, own:stop])
        both = (
            torch.autograd.grad(
                out.sin().sum(), [*leaves, *learned], retain_graph=True, materialize_grads=True
            )
            for out in (part, whole[:, own:stop])
        )
        for got, wanted in zip(*both, strict=True):
            torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("name", pe.encodings())
def test_a_range_of_heads_of_every_encoding(name: str) -> None:
    for encoding in filter(attends, pe.encodings()[name].examples()):
        trial = Trial.of(encoding)
        place = {"context": trial.context, "causal": True}
        lowered = lower(trial.encoding, 9, dtype=torch.float64, **place)
        check(trial.qkv, lowered, list(trial.encoding.parameters()))


@pytest.mark.parametrize("name", TERMS)
def test_a_range_of_heads_of_every_term(name: str) -> None:
    draw = drawing()
    term = TERMS[name](SQUARE, draw)
    parts = list(t.turns_in(term).values()) or [term]
    learned = [x for part in parts for x in vars(part).values() if isinstance(x, Tensor)]
    learned = [x.requires_grad_() for x in learned if x.is_floating_point()]
    check(inputs(SQUARE, draw), lower(term, 7, causal=True, dtype=torch.float64), learned)


def test_angles_of_key_heads_are_cut_by_key_heads() -> None:
    draw = drawing()
    term = t.Rotate(draw(1, 6, 7, 5), draw(1, 3, 7, 5), "half")
    check(inputs(SQUARE, draw), lower(term, 7, causal=True, dtype=torch.float64), [])


def test_what_all_heads_share_is_not_made_again() -> None:
    lowered = lower([pe.Rotary(16), pe.SlidingWindow(3)], 7, causal=True)
    assert heads_of(lowered, 2, 2) is lowered


@pytest.mark.graph
@pytest.mark.parametrize("encoding", [pe.ALiBi(6), pe.LearnedRotary(10, heads=6), pe.T5Bias(6)])
def test_a_graph_cuts_heads_as_a_call_does(encoding: pe.Encoding) -> None:
    def part(x: Tensor) -> Tensor:
        return attend(x, x, x, heads_of(lower(encoding, 7, causal=True), 2, 3))

    x = drawing()(2, 3, 7, 10).float()
    torch.testing.assert_close(torch.compile(part, backend="eager", fullgraph=True)(x), part(x))


def test_ranges_that_do_not_fit_say_why() -> None:
    lowered = lower(pe.ALiBi(6), 7)
    with pytest.raises(ShapeError, match=r"first=4, count=3\): the terms have 6 heads"):
        heads_of(lowered, 4, 3)
    with pytest.raises(ShapeError, match=r"query heads 1 to 2, of which 2 share a key head"):
        key_heads_of(1, 2, heads=6, key_heads=3)
    assert key_heads_of(2, 4, heads=6, key_heads=3) == (1, 2)
    assert key_heads_of(3, 1, heads=6, key_heads=3) == (1, 1)
