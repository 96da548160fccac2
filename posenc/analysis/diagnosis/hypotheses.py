"""What a hypothesis is, and what hypotheses are made of."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import Computation, Results
from posenc.encoding import Encoding
from posenc.errors import PosencError

# What torch cannot compute either, such as a row that a table lacks, is no explanation.
IMPOSSIBLE = (PosencError, RuntimeError, IndexError)
LOW = {torch.bfloat16: "bfloat16", torch.float16: "float16"}

# What can be wrong, row by row: the cause, what the other implementation does, and the computation
# with it, or its results where they follow from ours. Of ours a sentence says "our" and "ours",
# which become "their" and "theirs" where ours is the wrong one.
Rows = Iterator[tuple[str, str, Computation | Results]]


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A cause, what it says of the other implementation, and how to compute its results.

    again  the same change of another computation, for causes with a number in them
    steps  the two that it is made of, the second on top of the first, where two things are wrong
    """

    cause: str
    says: str
    theirs: Computation | Results
    again: Callable[[Computation], Computation | None] | None = None
    steps: tuple["Hypothesis", ...] = ()

    def results(self, tokens: Tensor | None = None) -> Results | None:
        """What it predicts, of these queries alone; None where it cannot be computed."""
        if not isinstance(self.theirs, Computation):
            return only(self.theirs, tokens)
        try:
            return self.theirs.cut(tokens).results()
        except IMPOSSIBLE:
            return None


def only(results: Results, tokens: Tensor | None) -> Results:
    """The results of these queries, None for all."""
    if tokens is None:
        return results
    return tuple(result.index_select(-2, tokens) for result in results)


def with_setting(ours: Computation, part: Encoding, **settings: object) -> Computation | None:
    """The computation with one encoding set otherwise; None where it cannot be, or is so."""
    own = part.settings()
    if not settings.keys() <= own.keys() or all(own[name] == x for name, x in settings.items()):
        return None
    try:
        other = type(part)(**{**own, **settings})
    except IMPOSSIBLE:
        return None
    trained, drawn = part.state_dict(), other.state_dict()
    if {n: p.shape for n, p in trained.items()} != {n: p.shape for n, p in drawn.items()}:
        return None
    for value in trained.values():
        other = other.to(value.device, value.dtype)
    other.load_state_dict(trained)
    return exchanging(ours, part, other)


def exchanging(ours: Computation, part: Encoding, other: Encoding) -> Computation:
    """The computation with one encoding in place of another."""
    return replace(ours, parts=tuple(other if each is part else each for each in ours.parts))


def orders_of(width: int) -> dict[str, Tensor]:
    """Other orders of dimensions that are common."""
    index = torch.arange(width)
    orders = {"in reverse": index.flip(0)}
    if width % 2 == 0:
        orders["even dimensions first, odd ones after"] = index.view(-1, 2).T.flatten()
        orders["dimensions of the two halves in turn"] = index.view(2, -1).T.flatten()
        orders["the two halves of the dimensions exchanged"] = index.roll(width // 2)
    return orders
