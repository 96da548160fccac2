"""What a hypothesis is, and the ones that need nothing but the two results."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import Computation, Kind, Results, finite_pair
from posenc.encoding import Encoding
from posenc.errors import PosencError

# What torch cannot compute either, such as a row that a table lacks, is no explanation.
IMPOSSIBLE = (PosencError, RuntimeError, IndexError)


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A cause, what it says of the other implementation, and how to compute its results.

    at      the computation with that cause in it; None where only results are known
    found   the results, where they follow from other results
    causes  how many things are wrong at once
    """

    cause: str
    says: str
    at: Computation | None = None
    found: Results | None = None
    causes: int = 1

    def results(self, tokens: Tensor | None = None) -> Results | None:
        """What it predicts, of these queries alone; None where it cannot be computed."""
        if self.found is not None:
            return self.found if tokens is None else only(self.found, tokens)
        assert self.at is not None
        try:
            return (self.at if tokens is None else self.at.cut(tokens)).results()
        except IMPOSSIBLE:
            return None


def only(results: Results, tokens: Tensor) -> Results:
    """The results of these queries."""
    return tuple(result.index_select(-2, tokens) for result in results)


def with_setting(at: Computation, part: Encoding, **settings: object) -> Computation | None:
    """The computation with one encoding set otherwise; None where it cannot be, or is so."""
    if all(getattr(part, name) == value for name, value in settings.items()):
        return None
    try:
        made = type(part)(**{**part.settings(), **settings})
    except IMPOSSIBLE:
        return None
    trained = part.state_dict()
    drawn = made.state_dict()
    if {n: p.shape for n, p in trained.items()} != {n: p.shape for n, p in drawn.items()}:
        return None
    for value in trained.values():
        made = made.to(value.device, value.dtype)
    made.load_state_dict(trained)
    return exchanging(at, part, made)


def exchanging(at: Computation, part: Encoding, made: Encoding) -> Computation:
    """The computation with one encoding in place of another."""
    return replace(at, parts=tuple(made if other is part else other for other in at.parts))


def otherwise(
    at: Computation, part: Encoding, cause: str, says: str, **settings: object
) -> Iterator[Hypothesis]:
    """The hypothesis that an encoding is set otherwise, where it can be."""
    changed = with_setting(at, part, **settings)
    if changed is not None:
        yield Hypothesis(cause, says, changed)


def of_results(ours: Results, theirs: Results, kind: Kind) -> Iterator[Hypothesis]:
    """Causes that turn one result into the other, whatever it was computed from."""
    if len(ours) == 2 and ours[0].shape == ours[1].shape:
        yield Hypothesis("q and k swapped", "gives q for k and k for q", found=ours[::-1])
    yield from _constant(ours, theirs)
    if kind in ("turned", "output"):
        yield from _order_of_dimensions(ours)
    if kind != "embedded":
        yield from _order_of_heads(ours, theirs)
    if kind == "scores":
        yield from _of_scores(ours[0], theirs[0])
        return
    for step, way in ((1, "later"), (-1, "earlier")):
        found = tuple(one.roll(step, -2) for one in ours)
        says = f"has our tokens one place {way}, with what they say, not their positions alone"
        yield Hypothesis("tokens shifted", says, found=found)
    found = tuple(one.flip(-2) for one in ours)
    yield Hypothesis("tokens reversed", "has our tokens in reverse order", found=found)


def _constant(ours: Results, theirs: Results) -> Iterator[Hypothesis]:
    """The factors by which least squares makes ours into theirs."""
    both = [finite_pair(one, two) for one, two in zip(ours, theirs, strict=True)]
    own = [(one * one).sum().item() for one, _ in both]
    shared = [(one * two).sum().item() for one, two in both]
    factor = sum(shared) / sum(own) if any(own) else 0.0
    if abs(factor) > 1e-3:
        found = tuple(one.double() * factor for one in ours)
        yield Hypothesis("constant factor", f"is {factor:.6g} times ours", found=found)
    if len(both) == 2 and all(own):
        each = [part / whole for part, whole in zip(shared, own, strict=True)]
        found = tuple(one.double() * by for one, by in zip(ours, each, strict=True))
        says = f"gives {each[0]:.6g} times our q and {each[1]:.6g} times our k"
        yield Hypothesis("constant factor", says, found=found)


def orders_of(width: int) -> dict[str, Tensor]:
    """Other orders of dimensions that are common."""
    found = {"in reverse": torch.arange(width - 1, -1, -1)}
    if width % 2 == 0:
        index = torch.arange(width)
        found["even dimensions first, odd ones after"] = index.view(-1, 2).T.flatten()
        found["dimensions of the two halves in turn"] = index.view(2, -1).T.flatten()
        found["the two halves of the dimensions exchanged"] = index.roll(width // 2)
    return found


def _order_of_dimensions(ours: Results) -> Iterator[Hypothesis]:
    for order, index in orders_of(ours[0].shape[-1]).items():
        found = tuple(one[..., index.to(one.device)] for one in ours)
        says = f"has our numbers in another order: {order} (scores of q and k do not change)"
        yield Hypothesis("order of dimensions", says, found=found)


def _order_of_heads(ours: Results, theirs: Results) -> Iterator[Hypothesis]:
    """Each head of theirs beside the head of ours that it is nearest to."""
    orders = []
    for one, two in zip(ours, theirs, strict=True):
        heads = [side.transpose(0, 1).flatten(1) for side in finite_pair(one, two)]
        orders.append(torch.cdist(heads[1][None], heads[0][None])[0].argmin(-1))
    last = orders[-1].tolist()
    if all(order.tolist() == list(range(len(order))) for order in orders):
        return
    cause, says = "order of heads", f"has our heads in the order {last}"
    for groups in range(2, len(last)):
        share = len(last) // groups
        tiled = [i % groups for i in range(len(last))]
        if len(last) % groups == 0 and [i // share for i in last] == tiled:
            cause = "key heads tiled"
            says += ": its key heads are tiled (0 1 0 1), ours repeated (0 0 1 1)"
            break
    found = tuple(one[:, order] for one, order in zip(ours, orders, strict=True))
    yield Hypothesis(cause, says, found=found)


def _of_scores(ours: Tensor, theirs: Tensor) -> Iterator[Hypothesis]:
    one, two = finite_pair(ours, theirs)
    seen = (ours.isfinite() & theirs.isfinite()).double()
    # The mean over the keys that a row sees.
    shift = ((two - one) * seen).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp(min=1)
    says = (
        "adds a number of its own to each row of scores, which softmax removes: biases may be "
        "counted from another key, as slopes times key positions are"
    )
    yield Hypothesis("constant per row", says, found=(ours.double() + shift,))
    own = (one * one).sum(-1, keepdim=True).clamp(min=1e-300)
    factor = (one * two).sum(-1, keepdim=True) / own
    says = "multiplies each row of scores by a number of its own, as a temperature by position does"
    yield Hypothesis("factor per row", says, found=(ours.double() * factor.clamp(min=1e-6),))
    if ours.shape[-1] == ours.shape[-2]:
        says = "has keys in rows and queries in columns"
        yield Hypothesis("scores transposed", says, found=(ours.mT,))
