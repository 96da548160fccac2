"""From numbers by seed to holds, fails or undecided.

    holds       every expectation's interval lies within its bounds, each at 95%: for all of them
                together that is enough, since each must hold (intersection-union test)
    fails       an interval lies outside its bounds, at 1 - 5% / how many there are
    undecided   anything else, and whatever rests on an arm that has not learned its task

An interval is Student's t of the values by seed, of differences seed by seed. To a share its own
error is added, which no number of seeds makes smaller where all are tested on the same examples.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from posenc.claims.claim import Cell, Claim, Expectation
from posenc.lab.intervals import LEVEL, Interval
from posenc.lab.measured import Values
from posenc.lab.statistics import mean
from posenc.words import Saying

Outcome = Literal["holds", "fails", "undecided"]


@dataclass(frozen=True)
class Found:
    """An expectation, and what came out."""

    expectation: Expectation
    outcome: Outcome
    interval: Interval | None = None
    values: tuple[float, ...] = ()
    reason: Saying | None = None


@dataclass(frozen=True)
class Verdict:
    """A claim's outcome, and those of all its expectations."""

    outcome: Outcome
    found: tuple[Found, ...]


def judge(claim: Claim, values: Mapping[Cell, Values]) -> Verdict:
    """`values` hold the cells that were measured, with infinity for seeds that failed."""
    level = 1 - (1 - LEVEL) / len(claim.expects)
    found = tuple(_judged(claim, one, values, level) for one in claim.expects)
    outcomes = {one.outcome for one in found}
    outcome: Outcome = "holds" if outcomes == {"holds"} else "undecided"
    return Verdict("fails" if "fails" in outcomes else outcome, found)


def unlearned(claim: Claim, values: Mapping[Cell, Values]) -> dict[str, float]:
    """The arms that have not learned their task at the train length, with their shares."""
    found = {}
    for cell in {Cell(cell.arm) for cell in cells(claim)} if claim.learned is not None else ():
        share = values.get(cell)
        if share and share.by_seed:
            average = math.fsum(share.by_seed.values()) / len(share.by_seed)
            if average < (claim.learned or 0.0):
                found[cell.arm] = average
    return found


def cells(claim: Claim) -> list[Cell]:
    """The cells that its expectations speak of, and those that tell what was learned."""
    spoken = [cell for one in claim.expects for cell in (one.of, one.minus) if cell is not None]
    gates = [Cell(cell.arm) for cell in spoken] if claim.learned is not None else []
    return list(dict.fromkeys([*spoken, *gates]))


def _judged(claim: Claim, one: Expectation, values: Mapping[Cell, Values], level: float) -> Found:
    short = unlearned(claim, values)
    for cell in (one.of, one.minus):
        if cell is not None and cell.arm in short and cell.times > 1:
            shares = {"share": short[cell.arm], "needed": claim.learned}
            return Found(one, "undecided", reason=Saying("unlearned", {"arm": cell.arm} | shares))
    first, second = values.get(one.of), values.get(one.minus) if one.minus else None
    if first is None or (one.minus and second is None):
        return Found(one, "undecided", reason=Saying("not_measured"))
    spoken = first.minus(second) if second else first
    if len(spoken.by_seed) < 2:
        return Found(one, "undecided", reason=Saying("few_seeds", {"seeds": len(spoken.by_seed)}))
    drawn = tuple(spoken.by_seed[seed] for seed in sorted(spoken.by_seed))
    if not all(map(math.isfinite, drawn)):
        return Found(one, "undecided", values=drawn, reason=Saying("not_finite"))
    usual = mean(drawn, LEVEL, spoken.error, spoken.within)
    above = -math.inf if one.above is None else one.above
    below = math.inf if one.below is None else one.below
    if above < usual.low and usual.high < below:
        return Found(one, "holds", usual, drawn)
    wider = mean(drawn, level, spoken.error, spoken.within)
    if wider.high < above or wider.low > below:
        return Found(one, "fails", usual, drawn)
    return Found(one, "undecided", usual, drawn)
