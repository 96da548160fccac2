"""What was found of a case, and how it compares with the floor."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, cast

from posenc.bench.case import Case, Goal
from posenc.bench.timing import Interval, interval, ratio, spread

# Quartiles of the floor further apart than this share of its median make ratios unsure.
NOISY = 0.15


@dataclass(frozen=True)
class Result:
    """values: seconds by contestant and round, or MiB; missing: why a contestant has none."""

    case: Case
    values: dict[str, list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    note: str = ""

    def against(self, who: str, base: str) -> Interval | None:
        """`who` over `base`, round by round, or above it in the unit of the case."""
        own, other = self.values.get(who), self.values.get(base)
        if own is None or other is None:
            return None
        if self.case.measure == "time":
            return ratio(own, other)
        scale = 1e6 if self.case.measure == "overhead" else 1.0
        return interval([scale * (a - b) for a, b in zip(own, other, strict=True)])

    def beside_best_peer(self, goal: Goal) -> tuple[str, Interval] | None:
        """The peer that leaves the goal's contestant worst, and that one against this peer."""
        peers = goal.peers
        if peers is None:
            none = {self.case.floor, *(each.least for each in self.case.goals)}
            others = (name for name in self.case.contestants if name not in none)
            peers = tuple(name for name in others if not name.startswith("posenc"))
        ran = [(peer, found) for peer in peers if (found := self.against(goal.who, peer))]
        return max(ran, key=lambda each: each[1].median, default=None)

    def least(self, goal: Goal) -> tuple[str, Interval] | None:
        """What cannot be left out of the goal's figure, where that ran."""
        found = None if goal.least is None else self.against(goal.least, goal.base)
        return None if goal.least is None or found is None else (goal.least, found)

    @classmethod
    def from_json(cls, case: Case, recorded: dict[str, Any] | None) -> "Result":
        """What a file has of `case`; what it lacks was not measured."""
        values = recorded["values"] if recorded else {}
        reasons = recorded["missing"] if recorded else {}
        missing = {n: reasons.get(n, "not measured") for n in case.contestants if n not in values}
        kept = {name: values[name] for name in case.contestants if name in values}
        return cls(case, kept, missing, recorded["note"] if recorded else "")

    @property
    def noise(self) -> float:
        """How far the floor's own times spread."""
        floor = self.values.get(self.case.floor, [])
        return spread(floor) if self.case.measure == "time" else 0.0

    @property
    def noisy(self) -> bool:
        return self.noise > NOISY

    def to_json(self) -> dict[str, Any]:
        case = self.case
        ratios = {}
        for name in self.values:
            against = self.against(name, case.floor)
            ratios[name] = against and dataclasses.asdict(against)
        return {
            "name": case.name,
            "group": case.group,
            "measure": case.measure,
            "unit": "MiB" if case.unit == "MiB" else "s",
            "setting": dataclasses.asdict(cast(Any, case.setting)),
            "floor": case.floor,
            "contestants": list(case.contestants),
            "values": self.values,
            "missing": self.missing,
            "against_floor": ratios,
            "goals": [dataclasses.asdict(goal) | self._judged(goal) for goal in case.goals],
            "noise": self.noise,
            "noisy": self.noisy,
            "note": self.note,
        }

    def _judged(self, goal: Goal) -> dict[str, Any]:
        found, peer = self.against(goal.who, goal.base), self.beside_best_peer(goal)
        least = self.least(goal)
        return {
            "found": found and dataclasses.asdict(found),
            "best_peer": peer and {"name": peer[0], "found": dataclasses.asdict(peer[1])},
            "least_found": least and dataclasses.asdict(least[1]),
        }
