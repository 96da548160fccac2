"""A claim's result as JSON: every number behind its verdict, by seed, and how it was made."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posenc.claims import plan
from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.measured import values
from posenc.claims.verdict import Found, cells, judge, unlearned
from posenc.claims.words import TEXTS
from posenc.lab.config import RunConfig
from posenc.lab.folder import Run
from posenc.lab.intervals import LEVEL
from posenc.lab.measured import Values
from posenc.lab.statistics import bootstrap, permuted
from posenc.words import Words

VERSION = 1
# Of the manifest: what the numbers may depend on.
MADE_WITH = ("versions", "hardware")


def result(
    claim: Claim, size: Size, configs: Mapping[str, Sequence[RunConfig]], out: Path
) -> dict[str, Any]:
    """What `posenc claims` keeps of a claim; a value that is no finite number is null."""
    runs = {label: plan.runs_of(own, out) for label, own in configs.items()}
    trained = claim.lengths(size)
    lengths = {cell: round(cell.times * trained[cell.arm]) for cell in cells(claim)}
    measured = {
        cell: found
        for cell, length in lengths.items()
        if (found := values(cell, runs.get(cell.arm, []), length)) is not None
    }
    verdict = judge(claim, measured)
    own = [run for one in runs.values() for run in one]
    by_position = any(cell.metric == "position" for cell in measured)
    kinds = ("accuracy", "loss", "missing", *(["by_position"] if by_position else []))
    return {
        "version": VERSION,
        "claim": claim.name,
        "size": size,
        "outcome": verdict.outcome,
        "level": LEVEL,
        "command": f"posenc claims run {claim.name} --size {size}",
        "expectations": [_expectation(found, measured, lengths) for found in verdict.found],
        "unlearned": unlearned(claim, measured),
        "arms": {label: _arm(configs[label], runs[label], kinds) for label in configs},
        "failed": {run.path.name: _error(run) for run in own if run.state == "failed"},
        "seconds": round(math.fsum(_seconds(run) for run in own), 1),
        "made_with": next(({k: run.manifest.get(k) for k in MADE_WITH} for run in own), {}),
        "started": min((str(run.manifest.get("started")) for run in own), default=None),
    }


def _expectation(
    found: Found, measured: Mapping[Cell, Values], lengths: Mapping[Cell, int]
) -> dict[str, Any]:
    one = found.expectation
    sides = {"of": one.of, "minus": one.minus}
    return {
        **{side: cell and _cell(cell, measured, lengths[cell]) for side, cell in sides.items()},
        "above": one.above,
        "below": one.below,
        "outcome": found.outcome,
        "reason": Words("en", TEXTS).of(found.reason) if found.reason else "",
        "saying": found.reason and {"key": found.reason.key, "values": dict(found.reason.values)},
        "interval": found.interval
        and {"mean": found.interval.mean, "low": found.interval.low, "high": found.interval.high},
        "bootstrap": found.interval and list(bootstrap(found.values)),
        "p": _p(found, one),
    }


def _cell(cell: Cell, measured: Mapping[Cell, Values], length: int) -> dict[str, Any]:
    known = measured.get(cell, Values({}))
    return {
        "arm": cell.arm,
        "metric": cell.metric,
        "times": cell.times,
        "length": length,
        "error": known.error,
        "seeds": {str(seed): _finite(value) for seed, value in known.by_seed.items()},
    }


def _p(found: Found, one: Expectation) -> float | None:
    """Of the sign permutation against the bound, where there is but one."""
    bounds = [bound for bound in (one.above, one.below) if bound is not None]
    if found.interval is None or len(bounds) != 1:
        return None
    return permuted(found.values, [bounds[0]] * len(found.values))


def _arm(configs: Sequence[RunConfig], runs: Sequence[Run], kinds: Sequence[str]) -> dict[str, Any]:
    shown = configs[0].to_json() if configs else {}
    states = [run.state for run in runs]
    return {
        "config": {key: value for key, value in shown.items() if key not in ("seed", "corpus")},
        "runs": len(configs),
        "done": states.count("done"),
        "failed": states.count("failed"),
        "rows": {
            str(run.config.seed): [_short(row) for row in run.rows if row["kind"] in kinds]
            for run in runs
        },
    }


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "spans"}


def _seconds(run: Run) -> float:
    found = [row["seconds"] for row in run.rows if row["kind"] == "done"]
    return float(found[-1]) if found else 0.0


def _error(run: Run) -> str:
    errors = [row.get("error") for row in run.rows if row["kind"] == "failed"]
    return str(errors[-1]) if errors else ""


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
