"""Hypotheses with a number in them, fitted to what the other implementation gave."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from posenc.analysis.diagnosis.bias_causes import BIASES, times_bias
from posenc.analysis.diagnosis.computation import Computation, Results, in_pairs, misfit
from posenc.analysis.diagnosis.hypotheses import (
    IMPOSSIBLE,
    Hypothesis,
    only,
    otherwise,
    with_setting,
)
from posenc.analysis.diagnosis.position_causes import moved, offset
from posenc.analysis.diagnosis.turning_causes import by_angle
from posenc.encoding import Encoding
from posenc.encodings.rotary import Rotary

# Long enough for a period to show, short enough for a wrong one not to fit by chance.
FITTED_TOKENS = 48
FARTHEST = 8_192


def fitted(at: Computation, theirs: Results) -> Iterator[Hypothesis]:
    """Each hypothesis at the number that comes nearest to theirs."""

    def fit(make: Callable[[float], Computation | None], grid: Sequence[float]) -> float | None:
        return _nearest(make, theirs, grid)

    invariant = all(isinstance(p, Encoding) and p.tags.translation_invariant for p in at.parts)
    if at.kind != "turned" and not invariant:
        steps = range(-64, 65)
        step = round(fit(lambda n: moved(at, q=round(n), k=round(n)), steps) or 0)
        if step:
            yield offset(at, step, step)
    for part in at.parts:
        own = getattr(part, "base", None)
        if not isinstance(part, Encoding) or own is None:
            continue
        base = fit(lambda x, part=part: with_setting(at, part, base=x), _powers(3.0, 1e9, 121))
        if base is not None:
            says = f"has the base {base:.6g}, ours {own:.6g}"
            turned = part.turned if isinstance(part, Rotary) else 0
            if turned > 2 and base > own:
                factor = (base / own) ** ((turned - 2) / turned)
                says += f" (NTK by a factor of {factor:.4g} is the same)"
            yield from otherwise(at, part, "base", says, base=base)
    if at.kind != "embedded" and at.rotate() is not None:
        faster = fit(lambda x: _faster(at, x), _powers(1 / 256, 256, 81))
        if faster is not None:
            by = ("divides", 1 / faster) if faster < 1 else ("multiplies", faster)
            says = f"{by[0]} positions by {by[1]:.6g}, or every frequency"
            yield Hypothesis("linear factor", says, _faster(at, faster))
    if at.kind not in ("scores", "output"):
        return
    factor = fit(lambda x: replace(at, scale=x * at.scale), _powers(1e-3, 1e3, 31))
    if factor is not None:
        says = f"scales q . k by {factor * at.scale:.6g}, ours by {at.scale:.6g}"
        yield Hypothesis("scale", says, replace(at, scale=factor * at.scale))
    if any(isinstance(term, BIASES) for term in at.lowered().terms):
        factor = fit(lambda x: times_bias(at, x), _powers(1e-3, 1e3, 31))
        if factor is not None:
            says = f"multiplies the bias by {factor:.6g}"
            yield Hypothesis("size of the bias", says, times_bias(at, factor))


def _faster(at: Computation, factor: float) -> Computation:
    return by_angle(at, lambda angle: angle * factor, lambda angle: angle * factor)


def _powers(low: float, high: float, count: int) -> list[float]:
    return [low * (high / low) ** (i / (count - 1)) for i in range(count)]


def _nearest(
    make: Callable[[float], Computation | None], theirs: Results, grid: Sequence[float]
) -> float | None:
    """The number that comes nearest to theirs; a round one where it does as well.

    The best of the grid, refined by golden section between its neighbours where all are positive.
    """
    count = min(FITTED_TOKENS, theirs[0].shape[-2])
    tokens = torch.arange(count, device=theirs[0].device)
    wanted = only(theirs, tokens)

    def off(x: float) -> float:
        try:
            made = make(x)
            return torch.inf if made is None else misfit(made.cut(tokens).results(), wanted)
        except IMPOSSIBLE:
            return torch.inf

    errors = [off(x) for x in grid]
    best = min(range(len(grid)), key=errors.__getitem__)
    if not math.isfinite(errors[best]):
        return None
    if min(grid) <= 0:
        return grid[best]
    low, high = math.log(grid[max(best - 1, 0)]), math.log(grid[min(best + 1, len(grid) - 1)])
    ratio = (5**0.5 - 1) / 2
    one, two = high - ratio * (high - low), low + ratio * (high - low)
    at_one, at_two = off(math.exp(one)), off(math.exp(two))
    for _ in range(36):
        if at_one <= at_two:
            high, two, at_two = two, one, at_one
            one = high - ratio * (high - low)
            at_one = off(math.exp(one))
        else:
            low, one, at_one = one, two, at_two
            two = low + ratio * (high - low)
            at_two = off(math.exp(two))
    found = math.exp((low + high) / 2)
    least = off(found)
    size = misfit(wanted, tuple(torch.zeros_like(one) for one in wanted)) if least else 0.0
    for digits in range(4):
        rounded = float(f"{found:.{digits}e}")
        if off(rounded) <= 1.02 * least + 1e-7 * size:
            return rounded
    return found


def offsets(at: Computation, theirs: Results) -> Iterator[Hypothesis]:
    """By how many positions turned rows are off: the number whose phases fit all pairs at once."""
    if at.kind != "turned":
        return
    tokens = torch.arange(min(FITTED_TOKENS, theirs[0].shape[-2]), device=theirs[0].device)
    some = at.cut(tokens)
    now, later = some.rotate(), moved(some, 1, 1).rotate()
    if now is None or later is None:
        return
    step = later.q_angle[..., 0, :] - now.q_angle[..., 0, :]
    if step.shape[1] > 1:
        return
    n = torch.arange(-FARTHEST, FARTHEST + 1, device=step.device, dtype=torch.float64)
    phases = n[:, None] * step[0, 0]
    cos, sin = phases.cos(), phases.sin()
    turns = [
        (in_pairs(two.double(), now) * in_pairs(one.double(), now).conj()).sum((1, 2))
        for one, two in zip(some.results(), only(theirs, tokens), strict=True)
    ]

    def best(turn: Tensor) -> Tensor:
        return n[(turn.real @ cos.T + turn.imag @ sin.T).argmax(-1)].long()

    whole = int(best(torch.stack(turns).sum((0, 1))))
    if whole:
        yield offset(at, whole, whole)
    rows = best(torch.stack(turns).sum(0))
    if len(rows) > 1 and bool((rows != rows[0]).any()):
        each = rows.view(-1, *[1] * max(at.positions.queries.position.ndim - 1, 1))
        shown = ", ".join(f"{row:+d}" for row in rows.tolist()[:8])
        says = (
            f"counts positions of the rows {shown} from ours, as where padding on the left is "
            "counted on one side only"
        )
        yield Hypothesis("padding counted", says, moved(at, each, each))
    sides = [int(best(turn.sum(0))) for turn in turns]
    if len(set(sides)) > 1:
        yield offset(at, *sides)
