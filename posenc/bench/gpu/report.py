"""What a row says, in a line; and the figures of a record."""

import statistics
from typing import Any

from posenc.bench.case import Case
from posenc.bench.gpu.row import Found
from posenc.bench.result import Result


def line(found: Found) -> str:
    """What was found, in a line of a terminal."""
    for why in ("failed", "missing"):
        if isinstance(found.get(why), str):
            return f"{why}: {found[why]}"
    if "error" in found:
        verdict = "right" if found["right"] else "WRONG"
        worst = "infinite" if found["error"] is None else f"{found['error']:.1e}"
        return f"{verdict}, off by {worst} in {found['of']}, at most {found['bound']:.0e}"
    if "values" in found:
        return _times(found["values"], found["missing"])
    shown = (f"{key} {_short(value)}" for key, value in found.items() if key not in ABOUT)
    return ", ".join(shown)


ABOUT = ("source", "card", "when", "gaps", "losses")


def result(case: Case, found: Found | None, clock: str = "values") -> Result:
    """What a record has of a case: its `values`, or those of its `graphs`."""
    if found is None or clock not in found:
        why = (found or {}).get("failed", "not measured")
        return Result(case, {}, dict.fromkeys(case.contestants, why))
    return Result(case, found[clock], {**found["missing"], **found.get("not captured", {})})


def _times(values: dict[str, list[float]], missing: dict[str, str]) -> str:
    """Each contestant beside the first."""
    if not values:
        return "nothing ran: " + "; ".join(f"{name}: {why}" for name, why in missing.items())
    base = statistics.median(next(iter(values.values())))
    shown = [f"{name} {statistics.median(each) / base:.2f}" for name, each in values.items()]
    return ", ".join([*shown, *(f"{name} missing" for name in missing)])


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
