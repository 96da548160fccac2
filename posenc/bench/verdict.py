"""Each figure to reach, whether it was met, and the lines of the table that they stand in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from posenc.bench.case import Goal, Unit
from posenc.bench.result import Result
from posenc.bench.timing import Interval

Verdict = Literal["met", "missed", "lost", "missed and lost", "not available"]
VERDICTS: tuple[Verdict, ...] = ("met", "missed", "lost", "missed and lost", "not available")
SHORT = ("missed", "lost", "missed and lost")
NOISE = (
    "The machine was noisy in {noisy} of {timed} cases: the floor's own times spread by up to "
    "{most:.0%} ({case}). Figures near their limits may be luck there."
)


@dataclass(frozen=True)
class Figure:
    """One goal of one case: what was found against the floor and against the best peer.

    found is a ratio, or µs or MiB above the base; so is peer's, of the peer that leaves us worst.
    """

    result: Result
    goal: Goal
    found: Interval | None
    peer: tuple[str, Interval] | None

    @property
    def missed(self) -> bool:
        return self.found is not None and self.found.median > self.goal.reach

    @property
    def lost(self) -> bool:
        """Whether a peer is faster, or needs less memory."""
        even = 1.0 if self.result.case.measure == "time" else 0.0
        return self.peer is not None and self.peer[1].median > even

    @property
    def least(self) -> tuple[str, Interval] | None:
        """Beside what is missed, what it cannot leave out, and what that takes."""
        return self.result.least(self.goal) if self.missed else None

    @property
    def lacking(self) -> str | None:
        """Why nothing was found."""
        if self.found is not None:
            return None
        reasons = (self.result.missing.get(name) for name in (self.goal.who, self.goal.base))
        return next(filter(None, reasons), "it was not run")

    @property
    def verdict(self) -> Verdict:
        return _verdict(self.missed, self.lost, self.found is None)


@dataclass(frozen=True)
class Line:
    """The figures of one line of the table, which shows the worst of them."""

    figures: tuple[Figure, ...]

    @property
    def goal(self) -> Goal:
        return self.figures[0].goal

    @property
    def unit(self) -> Unit:
        return self.figures[0].result.case.unit

    @property
    def worst(self) -> Figure | None:
        """The figure that is farthest above the floor."""
        ran = [(one.found.median, one) for one in self.figures if one.found is not None]
        return max(ran, key=lambda each: each[0])[1] if ran else None

    @property
    def worst_beside_peer(self) -> Figure | None:
        """The figure that fares worst beside its best peer."""
        ran = [(one.peer[1].median, one) for one in self.figures if one.peer is not None]
        return max(ran, key=lambda each: each[0])[1] if ran else None

    @property
    def lacking(self) -> dict[str, str]:
        """By case, why it has no figure."""
        return {one.result.case.name: one.lacking for one in self.figures if one.lacking}

    @property
    def noisy(self) -> bool:
        return any(one.result.noisy for one in self.figures if one.found is not None)

    @property
    def verdict(self) -> Verdict:
        missed, lost = (any(getattr(one, what) for one in self.figures) for what in SHORT[:2])
        return _verdict(missed, lost, bool(self.lacking))

    def to_json(self) -> dict[str, Any]:
        worst, beside = self.worst, self.worst_beside_peer
        found = worst.found if worst else None
        peer = None
        if beside and beside.peer:
            name, against = beside.peer
            ends = [against.low, against.median, against.high]
            peer = {"name": name, "found": ends, "case": beside.result.case.name}
        least = None
        if worst and worst.least:
            name, own = worst.least
            least = {"name": name, "found": [own.low, own.median, own.high]}
        return {
            "row": self.goal.row,
            "line": self.goal.line,
            "base": self.goal.base,
            "reach": self.goal.reach,
            "unit": self.unit,
            "cases": len(self.figures),
            "found": found and [found.low, found.median, found.high],
            "worst": worst.result.case.name if worst else None,
            "peer": peer,
            "least": least,
            "lacking": self.lacking,
            "noisy": self.noisy,
            "verdict": self.verdict,
        }


def figures(results: Sequence[Result]) -> list[Figure]:
    """Every goal of every case, in the order of the cases."""
    return [
        Figure(
            result, goal, result.against(goal.who, goal.base), result.beside_best_peer(goal)
        )
        for result in results
        for goal in result.case.goals
    ]  # fmt: skip


def lines(results: Sequence[Result]) -> list[Line]:
    """The table, in the order in which the cases declare its rows."""
    members: dict[str, dict[str, list[Figure]]] = {}
    for figure in figures(results):
        of_row = members.setdefault(figure.goal.row, {})
        of_row.setdefault(figure.goal.line, []).append(figure)
    return [Line(tuple(group)) for of_row in members.values() for group in of_row.values()]


def headline(table: Sequence[Line]) -> str:
    """The outcome in one sentence."""
    if not table:
        return "Nothing was measured"
    counts = {verdict: sum(line.verdict == verdict for line in table) for verdict in VERDICTS}
    parts = [f"{counts['met']} of {len(table)} figures are met"]
    parts += [f"{counts[verdict]} {verdict}" for verdict in VERDICTS[1:] if counts[verdict]]
    return ", ".join(parts)


def lost_to_peers(results: Sequence[Result]) -> dict[str, tuple[list[Figure], int]]:
    """By row, the figures that a peer beats, and how many were measured beside one."""
    counted: dict[str, tuple[list[Figure], int]] = {}
    for figure in figures(results):
        if figure.peer is not None:
            lost, beside = counted.get(figure.goal.row, ([], 0))
            counted[figure.goal.row] = [*lost, figure] if figure.lost else lost, beside + 1
    return {row: counts for row, counts in counted.items() if counts[0]}


def noise(results: Sequence[Result], sentence: str = NOISE) -> str | None:
    """A sentence about a noisy machine, or None for a quiet one."""
    timed = [result for result in results if result.case.measure == "time" and result.values]
    noisy = [result for result in timed if result.noisy]
    if not noisy:
        return None
    most = max(noisy, key=lambda result: result.noise)
    return sentence.format(noisy=len(noisy), timed=len(timed), most=most.noise, case=most.case.name)


def _verdict(missed: bool, lost: bool, lacking: bool) -> Verdict:
    """Short of the figure, behind a peer, or both; what did not run is not met."""
    if missed or lost:
        return "missed and lost" if missed and lost else "missed" if missed else "lost"
    return "not available" if lacking else "met"
