"""The figures to reach: each line of the table, and whether it was met."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from posenc.bench.result import Result
from posenc.bench.timing import Interval

Verdict = Literal["met", "not met", "not available"]


@dataclass(frozen=True)
class Line:
    """One line of the table, which stands for the worst of its cases.

    found is a ratio, or MiB; lacking are the cases that have none, with the reason.
    """

    row: str
    line: str
    base: str
    reach: float
    unit: Literal["x", "MiB"]
    cases: int
    found: Interval | None
    worst: str
    best_peer: tuple[str, Interval] | None
    lacking: dict[str, str]
    noisy: bool

    @property
    def verdict(self) -> Verdict:
        if self.found is not None and self.found.median > self.reach:
            return "not met"
        return "not available" if self.lacking else "met"

    def to_json(self) -> dict[str, Any]:
        found, peer = self.found, self.best_peer
        return {
            "row": self.row,
            "line": self.line,
            "base": self.base,
            "reach": self.reach,
            "unit": self.unit,
            "cases": self.cases,
            "found": found and [found.low, found.median, found.high],
            "worst": self.worst,
            "best_peer": peer and {"name": peer[0], "median": peer[1].median},
            "lacking": self.lacking,
            "noisy": self.noisy,
            "verdict": self.verdict,
        }


def lines(results: Sequence[Result]) -> list[Line]:
    """The table, in the order in which the cases declare its rows."""
    members: dict[tuple[str, str], list[tuple[Result, Any]]] = {}
    for result in results:
        for goal in result.case.goals:
            members.setdefault((goal.row, goal.line), []).append((result, goal))
    rows = list(dict.fromkeys(row for row, _ in members))
    keys = sorted(members, key=lambda key: rows.index(key[0]))
    return [_line(members[key]) for key in keys]


def _line(members: Sequence[tuple[Result, Any]]) -> Line:
    lacking, ran = {}, []
    for result, goal in members:
        found = result.against(goal.who, goal.base)
        if found is None:
            missing = (result.missing.get(name) for name in (goal.who, goal.base))
            lacking[result.case.name] = next(filter(None, missing), "it was not run")
        else:
            ran.append((found, result))
    goal = members[0][1]
    worst = max(ran, key=lambda each: each[0].median, default=None)
    return Line(
        goal.row,
        goal.line,
        goal.base,
        goal.reach,
        "x" if members[0][0].case.measure == "time" else "MiB",
        len(members),
        worst and worst[0],
        worst[1].case.name if worst else "",
        worst[1].best_peer(goal.base) if worst else None,
        lacking,
        any(result.noisy for _, result in ran),
    )


def headline(table: Sequence[Line]) -> str:
    """The outcome in one sentence."""
    if not table:
        return "None of the cases that ran has a figure to reach"
    counts = {verdict: sum(line.verdict == verdict for line in table) for verdict in
              ("met", "not met", "not available")}  # fmt: skip
    parts = [f"{counts['met']} of {len(table)} figures are met"]
    parts += [f"{counts[v]} {v}" for v in ("not met", "not available") if counts[v]]
    return ", ".join(parts)


def noise(results: Sequence[Result]) -> str | None:
    """A sentence about a noisy machine, or None for a quiet one."""
    timed = [result for result in results if result.case.measure == "time" and result.values]
    noisy = [result for result in timed if result.noisy]
    if not noisy:
        return None
    most = max(noisy, key=lambda result: result.noise)
    return (
        f"The machine was noisy in {len(noisy)} of {len(timed)} cases: the floor's own times "
        f"spread by up to {most.noise:.0%} ({most.case.name}). Figures near their limits may be "
        "luck there."
    )
