"""Hypotheses with a number in them, fitted to what the other implementation gave."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from posenc.analysis.diagnosis.causes.bias import BIASES, times_bias
from posenc.analysis.diagnosis.causes.position import moved, offset
from posenc.analysis.diagnosis.causes.rotation import by_angle
from posenc.analysis.diagnosis.computation import Computation, Results, in_pairs, misfit
from posenc.analysis.diagnosis.hypotheses import IMPOSSIBLE, Hypothesis, only, with_setting
from posenc.encoding import Encoding
from posenc.encodings.rotary import Rotary

# Long enough for a period to show, short enough for a wrong one not to fit by chance.
FITTED_TOKENS = 48
# Half of them tell which number of a grid is nearest.
GRID_TOKENS = 24
FARTHEST = 8_192
# A grid whose best number leaves more than this share of the difference is not refined.
HOPELESS = 0.95


@dataclass(frozen=True, eq=False)
class Fit:
    """A cause with a number in it: the numbers to try, and what one of them changes and says."""

    cause: str
    grid: Sequence[float]
    change: Callable[[Computation, float], Computation | None]
    says: Callable[[float], str]


def fitted(
    ours: Computation, theirs: Results, causes: Collection[str] | None = None
) -> Iterator[Hypothesis]:
    """Each cause with a number, or these alone, at the number that comes nearest to theirs."""
    if ours.kind == "turned" and (causes is None or "offset" in causes):
        yield from by_phase(ours, theirs)
    for fit in fits(ours):
        if causes is not None and fit.cause not in causes:
            continue
        # An offset of 0 is no difference.
        if number := _nearest(fit, ours, theirs):
            again = partial(_changed, fit, number)
            if (changed := again(ours)) is not None:
                yield Hypothesis(fit.cause, fit.says(number), changed, again=again)


def _changed(fit: Fit, number: float, ours: Computation) -> Computation | None:
    return fit.change(ours, number)


def fits(ours: Computation) -> Iterator[Fit]:
    """Every number that our computation has and theirs may have otherwise."""
    invariant = (isinstance(p, Encoding) and p.tags.translation_invariant for p in ours.parts)
    if ours.kind != "turned" and not all(invariant):
        yield Fit(
            "offset",
            range(-64, 65),
            lambda other, n: moved(other, round(n), round(n)),
            lambda n: offset(ours, round(n), round(n))[1],
        )
    for index, part in enumerate(ours.parts):
        if isinstance(part, Encoding) and getattr(part, "base", None) is not None:
            yield _base(index, part)
    if ours.rotate is not None:
        grid = _powers(1 / 256, 256, 81)
        yield Fit("linear factor", grid, lambda c, x: by_angle(c, lambda a: a * x), _faster)
    if ours.kind not in ("scores", "output"):
        return
    own, grid = ours.scale, _powers(1e-3, 1e3, 31)
    yield Fit(
        "scale",
        [own * factor for factor in grid],
        lambda other, scale: replace(other, scale=scale),
        lambda scale: f"scales q . k by {scale:.6g}, ours by {own:.6g}",
    )
    if ours.has(*BIASES):
        size = "size of the bias"
        yield Fit(size, grid, times_bias, lambda x: f"multiplies the bias by {x:.6g}")


def _base(index: int, part: Encoding) -> Fit:
    own: float = getattr(part, "base")  # noqa: B009 - encodings with a base have no common class

    def change(ours: Computation, base: float) -> Computation | None:
        now = ours.parts[index]
        return with_setting(ours, now, base=base) if isinstance(now, Encoding) else None

    def says(base: float) -> str:
        width = part.rotated_dim if isinstance(part, Rotary) else 0
        text = f"has the base {base:.6g}, ours {own:.6g}"
        if width > 2 and base > own:
            factor = (base / own) ** ((width - 2) / width)
            text += f" (NTK by a factor of {factor:.4g} is the same)"
        return text

    return Fit("base", _powers(3.0, 1e9, 61), change, says)


def _faster(factor: float) -> str:
    verb, number = ("divides", 1 / factor) if factor < 1 else ("multiplies", factor)
    return f"{verb} positions by {number:.6g}, or every frequency"


def _powers(low: float, high: float, count: int) -> list[float]:
    return [low * (high / low) ** (i / (count - 1)) for i in range(count)]


def _first_tokens(theirs: Results) -> Tensor:
    return torch.arange(min(FITTED_TOKENS, theirs[0].shape[-2]), device=theirs[0].device)


def _nearest(fit: Fit, ours: Computation, theirs: Results) -> float | None:
    """The number that comes nearest to theirs, a round one where it does as well; None if hopeless.

    The best of the grid, refined by golden section between its neighbours where all are positive.
    """
    tokens, grid = _first_tokens(theirs), fit.grid

    def off(x: float, tokens: Tensor, wanted: Results) -> float:
        try:
            changed = fit.change(ours, x)
            return torch.inf if changed is None else misfit(changed.cut(tokens).results(), wanted)
        except IMPOSSIBLE:
            return torch.inf

    coarse = tokens[:GRID_TOKENS]
    wanted = only(theirs, coarse)
    errors = [off(x, coarse, wanted) for x in grid]
    best = min(range(len(grid)), key=errors.__getitem__)
    if not errors[best] <= HOPELESS * misfit(ours.cut(coarse).results(), wanted):
        return None
    if min(grid) <= 0:
        return grid[best]
    wanted = only(theirs, tokens)
    low, high = math.log(grid[max(best - 1, 0)]), math.log(grid[min(best + 1, len(grid) - 1)])
    size = misfit(wanted, tuple(torch.zeros_like(one) for one in wanted))

    def off_by_power(x: float) -> float:
        return off(math.exp(x), tokens, wanted)

    low, high = _golden(off_by_power, low, high)
    # What leaves next to nothing may be the very number, which float64 tells to its last digit.
    if off_by_power((low + high) / 2) <= 1e-6 * size:
        low, high = _golden(off_by_power, low, high)
    nearest = math.exp((low + high) / 2)
    least = off(nearest, tokens, wanted)
    for digits in range(4):
        rounded = float(f"{nearest:.{digits}e}")
        if off(rounded, tokens, wanted) <= 1.02 * least + 1e-7 * size:
            return rounded
    return nearest


def _golden(off: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Where a function with one minimum between low and high has it, to 3e-8 of that range.

    By golden section.
    """
    ratio = (5**0.5 - 1) / 2
    one, two = high - ratio * (high - low), low + ratio * (high - low)
    off_one, off_two = off(one), off(two)
    for _ in range(36):
        if off_one <= off_two:
            high, two, off_two = two, one, off_one
            one = high - ratio * (high - low)
            off_one = off(one)
        else:
            low, one, off_one = one, two, off_two
            two = low + ratio * (high - low)
            off_two = off(two)
    return low, high


def by_phase(ours: Computation, theirs: Results) -> Iterator[Hypothesis]:
    """The number of positions whose phases fit all rotated pairs at once, for rows and sides."""
    tokens = _first_tokens(theirs)
    some = ours.cut(tokens)
    now, later = some.rotate, moved(some, 1, 1).rotate
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

    def off(q: int, k: int) -> Hypothesis:
        return Hypothesis(*offset(ours, q, k), again=lambda other: moved(other, q, k))

    whole = int(best(torch.stack(turns).sum((0, 1))))
    if whole:
        yield off(whole, whole)
    rows = best(torch.stack(turns).sum(0))
    if len(rows) > 1 and bool((rows != rows[0]).any()):
        each = rows.view(-1, *[1] * max(ours.positions.queries.position.ndim - 1, 1))
        shown = ", ".join(f"{row:+d}" for row in rows.tolist()[:8])
        says = (
            f"counts positions of the rows {shown} from ours, as where padding on the left is "
            "counted on one side only"
        )
        yield Hypothesis("padding counted", says, moved(ours, each, each))
    sides = [int(best(turn.sum(0))) for turn in turns]
    if len(set(sides)) > 1:
        yield off(*sides)
