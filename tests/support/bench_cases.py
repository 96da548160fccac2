"""Cases and results of a benchmark that nobody measured, for tests of what is made of them."""

import dataclasses
from typing import Any

from posenc.bench.case import Case, Goal
from posenc.bench.result import Result

MACHINE = {
    "cpu": "a CPU", "system": "Linux", "cores": 2, "threads": 2, "flags": ["avx2"],
    "memory_gib": 8.0, "python": "3.11", "torch": "2.13", "posenc": "0.1", "native": "none",
    "wait_policy": None, "gpu": None, "peers": {"transformers": None},
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Nothing:
    def inputs(self) -> None:
        return None

    def small(self) -> "Nothing":
        return self


def case_of(**changes: Any) -> Case:
    runs = {name: lambda _: lambda: None for name in ("floor", "posenc", "peer")}
    goal = Goal("a row", "a line", "posenc", "floor", 1.5)
    given: dict[str, Any] = {"name": "a case, of all", "group": "rotary", "goals": (goal,)}
    return Case(**{"setting": Nothing(), "contestants": runs, "floor": "floor", **given, **changes})


def result(posenc: float | None, peer: float = 5.0, **changes: Any) -> Result:
    values = {"floor": [1.0] * 7, "peer": [peer] * 7}
    if posenc is None:
        return Result(case_of(**changes), values, {"posenc": "no compiler"})
    return Result(case_of(**changes), values | {"posenc": [posenc] * 7})


def about() -> dict[str, Any]:
    known = {"version": 1, "command": "posenc bench", "started": "2026-01-01T00:00:00Z"}
    return {**known, "quick": True, "machine": MACHINE}
