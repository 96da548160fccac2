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
        """Times: `who` over `base`, round by round. Memory: MiB of `who` above `base`."""
        own, other = self.values.get(who), self.values.get(base)
        if own is None or other is None:
            return None
        if self.case.measure == "time":
            return ratio(own, other)
        return interval([a - b for a, b in zip(own, other, strict=True)])

    @property
    def peers(self) -> list[str]:
        names = (name for name in self.case.contestants if name != self.case.floor)
        return [name for name in names if not name.startswith("posenc")]

    def best_peer(self, base: str) -> tuple[str, Interval] | None:
        found = [(peer, self.against(peer, base)) for peer in self.peers if peer != base]
        ran = [(peer, one) for peer, one in found if one is not None]
        return min(ran, key=lambda each: each[1].median, default=None)

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
            found = self.against(name, case.floor)
            ratios[name] = found and dataclasses.asdict(found)
        return {
            "name": case.name,
            "group": case.group,
            "measure": case.measure,
            "unit": "s" if case.measure == "time" else "MiB",
            "setting": dataclasses.asdict(cast(Any, case.setting)),
            "floor": case.floor,
            "contestants": list(case.contestants),
            "values": self.values,
            "missing": self.missing,
            "against_floor": ratios,
            "goals": [dataclasses.asdict(goal) | self._met(goal) for goal in case.goals],
            "noise": self.noise,
            "noisy": self.noisy,
            "note": self.note,
        }

    def _met(self, goal: Goal) -> dict[str, Any]:
        found = self.against(goal.who, goal.base)
        return {
            "found": found and dataclasses.asdict(found),
            "met": None if found is None else found.median <= goal.reach,
        }
