"""What turns one result into the other, whatever it was computed from."""

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import Kind, Results, finite_pair
from posenc.analysis.diagnosis.hypotheses import Rows, orders_of


def result(ours: Results, theirs: Results, kind: Kind) -> Rows:
    """Everything that needs the two results alone."""
    if len(ours) == 2 and ours[0].shape == ours[1].shape:
        yield "q and k swapped", "gives q for k and k for q", ours[::-1]
    yield from _constant(ours, theirs)
    if kind in ("turned", "output"):
        for order, index in orders_of(ours[0].shape[-1]).items():
            changed = tuple(one[..., index.to(one.device)] for one in ours)
            says = f"has our numbers in another order: {order} (scores of q and k do not change)"
            yield "order of dimensions", says, changed
    if kind != "embedded":
        yield from _order_of_heads(ours, theirs)
    if kind == "scores":
        yield from _of_scores(ours[0], theirs[0])
        return
    for step, way in ((1, "later"), (-1, "earlier")):
        says = f"has our tokens one place {way}, with what they say, not their positions alone"
        yield "tokens shifted", says, tuple(one.roll(step, -2) for one in ours)
    yield "tokens reversed", "has our tokens in reverse order", tuple(one.flip(-2) for one in ours)


def _constant(ours: Results, theirs: Results) -> Rows:
    """The factors by which least squares makes ours into theirs."""
    both = [finite_pair(one, two) for one, two in zip(ours, theirs, strict=True)]
    own = [(one * one).sum().item() for one, _ in both]
    shared = [(one * two).sum().item() for one, two in both]
    factor = sum(shared) / sum(own) if any(own) else 0.0
    if abs(factor) > 1e-3:
        changed = tuple(one.double() * factor for one in ours)
        yield "constant factor", f"is {factor:.6g} times ours", changed
    if len(both) == 2 and all(own):
        each = [part / whole for part, whole in zip(shared, own, strict=True)]
        changed = tuple(one.double() * by for one, by in zip(ours, each, strict=True))
        says = f"gives {each[0]:.6g} times our q and {each[1]:.6g} times our k"
        yield "constant factor", says, changed


def _order_of_heads(ours: Results, theirs: Results) -> Rows:
    """Each head of theirs beside the head of ours that it is nearest to."""
    orders = []
    for one, two in zip(ours, theirs, strict=True):
        own, other = (side.transpose(0, 1).flatten(1) for side in finite_pair(one, two))
        orders.append(torch.cdist(other[None], own[None])[0].argmin(-1))
    if all(order.tolist() == list(range(len(order))) for order in orders):
        return
    last = orders[-1].tolist()
    cause, says = "order of heads", f"has our heads in the order {last}"
    for groups in range(2, len(last)):
        share = len(last) // groups
        tiled = [i % groups for i in range(len(last))]
        if len(last) % groups == 0 and [i // share for i in last] == tiled:
            cause = "key heads tiled"
            says += ": its key heads are tiled (0 1 0 1), ours repeated (0 0 1 1)"
            break
    yield cause, says, tuple(one[:, order] for one, order in zip(ours, orders, strict=True))


def _of_scores(ours: Tensor, theirs: Tensor) -> Rows:
    one, two = finite_pair(ours, theirs)
    seen = (ours.isfinite() & theirs.isfinite()).double()
    # The mean over the keys that a row sees.
    shift = ((two - one) * seen).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp(min=1)
    says = (
        "adds a number of its own to each row of scores, which softmax removes: biases may be "
        "counted from another key, as slopes times key positions are"
    )
    yield "constant per row", says, (ours.double() + shift,)
    own = (one * one).sum(-1, keepdim=True).clamp(min=1e-300)
    factor = (one * two).sum(-1, keepdim=True) / own
    says = "multiplies each row of scores by a number of its own, as a temperature by position does"
    yield "factor per row", says, (ours.double() * factor.clamp(min=1e-6),)
    if ours.shape[-1] == ours.shape[-2]:
        says = "has keys in rows and queries in columns"
        yield "scores transposed", says, (ours.mT,)
