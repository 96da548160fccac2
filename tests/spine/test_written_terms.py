"""What somebody's own `lower` may return by mistake: refused by name, and never left out."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import posenc as pe
from posenc import PosencError, Positions, attend
from posenc import terms as t

LENGTH = 256
DRAWN = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
ANGLE = torch.arange(LENGTH).double().view(1, 1, -1, 1) * torch.tensor([1.0, 0.1]).double()
COUNT = torch.arange(LENGTH)[None]
ROWS = DRAWN.new_ones(1, 5, 4)


class Written(pe.Encoding):
    """What a function makes, as it comes."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self.make = make

    def lower(self, positions, context=None, *, dtype=torch.float32):
        return self.make()


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "one term": (lambda: t.Slope(torch.ones(4)), r"lower returned a Slope: .* as \(term,\)"),
    "no return": (lambda: None, "Written.lower returned a NoneType"),
    "a tensor": (
        lambda: (torch.zeros(4, 4),),
        "Tensor is no term; terms are those of posenc.terms",
    ),
    "a rule": (lambda: (t.Window(3),), r"give Mask\(Window\(width=3\)\)"),
    "a matrix as a rule": (
        lambda: (t.Mask(torch.eye(LENGTH).bool()),),
        "Mask of a Tensor, which would hide nothing",
    ),
    "a function as a rule": (
        lambda: (t.Mask(lambda q, k: q == k),),
        "Mask of a function, which would hide nothing",
    ),
    "a list": (lambda: (t.Slope([0.1] * 4),), "Slope.past is a list"),
    "another layout": (
        lambda: (t.Rotate(ANGLE, ANGLE, "neox"),),
        r"Rotate\(layout='neox'\): layout is 'half' or 'interleaved'",
    ),
    "another layout of values": (
        lambda: (t.RotateValues(ANGLE, ANGLE, "neox"),),
        r"RotateValues\(layout='neox'\)",
    ),
    "another layout of one zone": (
        lambda: (t.Zones(t.Rotate(ANGLE, ANGLE, "half"), t.Rotate(ANGLE, ANGLE, "neox"), 3),),
        r"Rotate\(layout='neox'\)",
    ),
    "another side": (
        lambda: (t.GatherTable(ROWS, 2, "query", saturates=True),),
        r"GatherTable\(side='query'\): side is 'q' or 'k'",
    ),
    "booleans": (
        lambda: (t.DenseBias(torch.ones(1, 1, LENGTH, LENGTH).bool()),),
        "DenseBias.values is of torch.bool: numbers are needed",
    ),
    "narrow indices": (
        lambda: (t.GridTable(torch.ones(4, 2 * LENGTH), COUNT.int(), COUNT.int(), LENGTH),),
        "GridTable.q_index is of torch.int32: int64 is needed",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.usefixtures("unhooked")
def test_a_mistake_is_named(name: str, backend: str) -> None:
    make, says = MISTAKES[name]
    q, k, v = torch.randn(3, 1, 4, LENGTH, 4).unbind()
    with pytest.raises(PosencError, match=says):
        attend(q, k, v, Written(make), causal=True, backend=backend)


def test_a_list_of_terms_serves_as_a_tuple() -> None:
    made = pe.lower(Written(lambda: [t.Slope(torch.ones(4))]), Positions.build(5, causal=True))
    assert [type(term) for term in made.terms] == [t.Slope]


def test_a_scale_may_be_any_number() -> None:
    q, k, v = torch.randn(3, 1, 4, 9, 4).unbind()
    expected = attend(q, k, v, t.Scale(2.0))
    assert torch.equal(attend(q, k, v, t.Scale(2)), expected)
