"""All numbers of a folder of runs as one tidy table: a row for each number.

    pandas.read_csv("runs.csv").pivot_table("value", ["metric", "encoding"], "length")

Columns are those of COLUMNS, then the settings in which runs differ. A failed run has one row with
its state and no number, so that nobody averages over survivors without seeing it.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from posenc.errors import LabError
from posenc.lab.folder import Run, read_run

COLUMNS = ("run", "state", "encoding", "task", "seed", "metric", "length", "value")
# What a row of results holds besides numbers.
_METRICS = {"loss": ("loss",), "accuracy": ("exact", "token", "loss", "chance")}
Row = dict[str, Any]


def runs_in(out: Path) -> list[Run]:
    """The runs of a comparison or of claims; LabError where there are none."""
    folder = out / "runs"
    found = [read_run(path) for path in sorted(folder.iterdir())] if folder.is_dir() else []
    runs = [run for run in found if run is not None]
    if not runs:
        raise LabError(
            f"{out} holds no runs: give the folder of `posenc compare --out` or `posenc claims "
            "run --out`"
        )
    return runs


def rows(runs: Sequence[Run]) -> list[Row]:
    """The table, in the order of runs and lengths."""
    settings = {run.path.name: run.config.to_json() for run in runs}
    keys = {key for one in settings.values() for key in one}
    held = (*COLUMNS, "settings", "corpus", "test_lengths", "version", "base")
    differing = sorted(
        key for key in keys - {*held} if len({repr(one.get(key)) for one in settings.values()}) > 1
    )
    found: list[Row] = []
    for run in runs:
        own = settings[run.path.name]
        head = {
            "run": run.path.name,
            "state": run.state,
            "encoding": run.config.encoding,
            "task": run.config.task,
            "seed": run.config.seed,
        }
        tail = {key: own.get(key) for key in differing}
        numbers = list(_numbers(run)) or [{"metric": None, "length": None, "value": None}]
        found += [head | number | tail for number in numbers]
    return found


def written(table: Sequence[Row], form: str) -> str:
    """The table as csv or as LaTeX: of LaTeX the means over seeds, a line for each setting."""
    return _latex(table) if form == "latex" else _csv(table)


def _numbers(run: Run) -> Iterator[Row]:
    for row in run.rows:
        for metric in _METRICS.get(row["kind"], ()):
            value = row.get(metric)
            name = row["protocol"] if row["kind"] == "loss" else metric
            if metric == "exact":
                value = row["exact"] / row["examples"]
            yield {"metric": name, "length": row["length"], "value": value}
        if row["kind"] == "cost":
            for metric in ("parameters", "encoding_parameters", "steps", "ms_per_step"):
                yield {"metric": metric, "length": None, "value": row.get(metric)}


def _csv(table: Sequence[Row]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return out.getvalue()


def _latex(table: Sequence[Row]) -> str:
    """Means and standard deviations over seeds of what a comparison is decided from."""
    known = [row["metric"] for row in table if row["length"] is not None]
    metric = "targets" if "targets" in known else next(iter(known), None)
    if metric is None:
        raise LabError("no run of this folder has a number at a length: nothing to tabulate")
    labels = _labels(table)
    cells: dict[tuple[str, int], list[float]] = {}
    for row in table:
        if row["metric"] == metric and row["value"] is not None:
            cells.setdefault((labels[_setting(row)], row["length"]), []).append(float(row["value"]))
    lengths = sorted({length for _, length in cells})
    lines = [
        f"% {metric}, mean and standard deviation over seeds",
        r"\begin{tabular}{l" + "r" * len(lengths) + "}",
    ]
    lines.append(" & ".join(["", *map(str, lengths)]) + r" \\ \hline")
    for label in dict.fromkeys(name for name, _ in cells):
        values = [_mean(cells.get((label, length), [])) for length in lengths]
        lines.append(" & ".join([label.replace("_", r"\_"), *values]) + r" \\")
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"


def _setting(row: Row) -> tuple[tuple[str, Any], ...]:
    """What runs over whose seeds one may average have in common."""
    settings = [(key, row[key]) for key in row if key not in COLUMNS]
    return (("encoding", row["encoding"]), ("task", row["task"]), *settings)


def _labels(table: Sequence[Row]) -> dict[tuple[tuple[str, Any], ...], str]:
    """The encoding, with the settings in which it was run in several ways."""
    found: dict[str, list[tuple[tuple[str, Any], ...]]] = {}
    for setting in dict.fromkeys(map(_setting, table)):
        found.setdefault(setting[0][1], []).append(setting)
    labels = {}
    for encoding, settings in found.items():
        common = set.intersection(*map(set, settings))
        for setting in settings:
            own = [f"{key}={value}" for key, value in setting if (key, value) not in common]
            labels[setting] = ", ".join([encoding, *own])
    return labels


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "--"
    spread = rf" $\pm$ {stdev(values):.3f}" if len(values) > 1 else ""
    return f"{fmean(values):.3f}{spread}"


def described(run: Run) -> Mapping[str, Any]:
    """Everything that is known of one run: what it was, on what, and its last numbers."""
    last = {
        row["kind"]: row for row in run.rows if row["kind"] in ("train", "cost", "done", "failed")
    }
    return {
        "run": run.path.name,
        "state": run.state,
        "config": run.config.to_json(),
        "manifest": {key: value for key, value in run.manifest.items() if key != "config"},
        "numbers": list(_numbers(run)),
        "last": last,
        "problems": run.problems,
    }
