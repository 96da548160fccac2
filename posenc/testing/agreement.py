"""How far two implementations of one formula are apart, forward and backward."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Status = Literal["agrees", "disagrees", "failed", "not installed"]


@dataclass(frozen=True)
class Case:
    """One comparison: two functions of the same inputs, and parameters that mean the same.

    inputs   floating-point tensors; each side gets its own copies, which need gradients
    weights  (ours, theirs) leaves whose gradients must agree; of as many elements
    """

    name: str
    ours: Callable[..., Tensor]
    theirs: Callable[..., Tensor]
    inputs: Sequence[Tensor] = ()
    weights: Sequence[tuple[Tensor, Tensor]] = ()


@dataclass(frozen=True)
class Peer:
    """An independent implementation of an encoding, and how closely it can be met.

    encoding   a name of the catalogue
    package    what must be installed, as pip names it; "paper" for the encoding's own reference
    cases      yields the comparisons
    forward, gradient  largest error allowed, relative to values above 1
    cap        why these are not float64's rounding; empty where they are
    """

    encoding: str
    package: str
    what: str
    cases: Callable[[], Iterator[Case]]
    forward: float = 1e-12
    gradient: float = 1e-12
    cap: str = ""


@dataclass(frozen=True)
class Agreement:
    """The largest errors over all cases of a peer; detail names the case that they came from."""

    encoding: str
    oracle: str
    cases: int
    forward: float | None
    gradient: float | None
    allowed_forward: float
    allowed_gradient: float
    cap: str
    status: Status
    detail: str = ""


def peer(
    encoding: str,
    package: str,
    *,
    forward: float = 1e-12,
    gradient: float = 1e-12,
    cap: str = "",
) -> Callable[[Callable[[], Iterator[Case]]], Peer]:
    """Declare a function that yields cases as a Peer; its docstring says what is compared with."""

    def declare(cases: Callable[[], Iterator[Case]]) -> Peer:
        what = (cases.__doc__ or "").strip().partition("\n")[0].rstrip(".")
        return Peer(encoding, package, what, cases, forward, gradient, cap)

    return declare


def errors_of(case: Case) -> tuple[float, float | None]:
    """The largest forward and gradient error of a case; None where nothing has a gradient."""
    outs, grads = zip(*(_run(case, side) for side in range(2)), strict=True)
    forward = distance(*outs)
    if not grads[0]:
        return forward, None
    pairs = zip(*grads, strict=True)
    return forward, max(distance(ours, theirs.reshape(ours.shape)) for ours, theirs in pairs)


def distance(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, relative to values above 1; infinite where shapes or NaNs differ."""
    if ours.shape != theirs.shape:
        return torch.inf
    ours, theirs = ours.detach().double(), theirs.detach().double()
    error = (ours - theirs).abs() / theirs.abs().clamp(min=1.0)
    error = error.masked_fill(ours == theirs, 0.0).nan_to_num(nan=torch.inf)
    return error.max().item() if error.numel() else 0.0


def _run(case: Case, side: int) -> tuple[Tensor, list[Tensor]]:
    inputs = [x.detach().clone().requires_grad_() for x in case.inputs]
    out = (case.ours, case.theirs)[side](*inputs)
    leaves = [*inputs, *(pair[side] for pair in case.weights)]
    if not leaves:
        return out, []
    # Any fixed function serves, so long as no two outputs weigh the same.
    weigh = torch.linspace(-1.0, 1.0, out.numel(), dtype=torch.float64).view(out.shape)
    grads = torch.autograd.grad((out.double() * weigh).sum(), leaves, allow_unused=True)
    return out, [
        torch.zeros_like(leaf) if grad is None else grad
        for leaf, grad in zip(leaves, grads, strict=True)
    ]
