"""All numbers of a folder of runs as one tidy table: a row for each number.

    pandas.read_csv("runs.csv").pivot_table("value", ["metric", "encoding"], "length")

Columns are those of COLUMNS, then the settings in which runs differ. `base` is what the run began
with, as it is called with seed 0. Where learning rates were looked for, `search` says which runs
did nothing else: `.query("not search")` leaves them out. A failed run has a row with its state even
where it has no number, and a loss that is no finite number is empty, so that nobody averages over
survivors without seeing it. LaTeX has no mean there, as the report has none.
"""

import csv
import importlib
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from posenc.atomic_files import whole_file
from posenc.errors import LabError
from posenc.lab.config import OWN_SIZES
from posenc.lab.folder import Run, read_run
from posenc.lab.rates import is_search

COLUMNS = ("run", "state", "encoding", "task", "seed", "metric", "length", "value")
# What a row of results holds besides numbers.
_METRICS = {"loss": ("loss",), "accuracy": ("exact", "token", "loss", "chance")}
# What a comparison is decided from; a task has one of them.
_DECIDING = ("exact", "targets", "windows")
# What follows from other settings more often than not: told where nothing else tells runs apart.
_DERIVED = ("test_lengths", "settings")
_HASHES = ("corpus", "weights")
_ESCAPES = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)
Row = dict[str, Any]
Setting = tuple[tuple[str, Any], ...]


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
    by_name = {run.path.name: run for run in runs}
    settings = {name: _told(run, by_name) for name, run in by_name.items()}
    keys = {key for one in settings.values() for key in one} - {*COLUMNS}
    differing = sorted(
        key for key in keys if len({repr(one.get(key)) for one in settings.values()}) > 1
    )
    searched = any(is_search(run.config) for run in runs)
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
        if searched:
            tail["search"] = is_search(run.config)
        numbers = list(_numbers(run)) or [{"metric": None, "length": None, "value": None}]
        found += [head | number | tail for number in numbers]
    return found


def written(table: Sequence[Row], form: str) -> str:
    """The table as csv or as LaTeX: of LaTeX the means over seeds, a line for each setting.

    LaTeX has a table for each task. Raises LabError where no run has a number for it.
    """
    return _latex(table) if form == "latex" else _csv(table)


def to_parquet(table: Sequence[Row], to: Path | None) -> None:
    """Write the table by pandas. Raises LabError without a file to write to, or without pandas."""
    if to is None:
        raise LabError("--form parquet writes a file: name it with --to runs.parquet")
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise LabError("--form parquet needs pandas and pyarrow; csv needs neither") from None
    with whole_file(to) as file:
        pandas.DataFrame(table).to_parquet(file)


def _told(run: Run, runs: Mapping[str, Run]) -> Row:
    """The settings of a run; what it began with is the same for every seed."""
    own = run.config.to_json()
    own["test_lengths"] = ",".join(map(str, own["test_lengths"]))
    return own | {"base": without_seed(run.config.base, runs)}


def without_seed(name: str, runs: Mapping[str, Run]) -> str:
    """What a run's name is with seed 0; without its seed and id where there is no such run."""
    if name not in runs:
        return re.sub(r"-s\d+-[0-9a-f]{12}$", "", name)
    # What it began with itself was there before it.
    earlier = {other: run for other, run in runs.items() if other != name}
    config = runs[name].config
    return replace(config, seed=0, base=without_seed(config.base, earlier)).name


def _numbers(run: Run) -> Iterator[Row]:
    for row in run.rows:
        for metric in _METRICS.get(row["kind"], ()):
            value = row.get(metric)
            name = row["protocol"] if row["kind"] == "loss" else metric
            if metric == "exact":
                value = row["exact"] / row["examples"]
            yield {"metric": name, "length": row["length"], "value": _finite(value)}
        if row["kind"] == "cost":
            for metric in ("parameters", "encoding_parameters", "steps", "ms_per_step"):
                yield {"metric": metric, "length": None, "value": row.get(metric)}


def _finite(value: Any) -> float | None:
    """None for a loss that diverged: earlier versions wrote its name."""
    return value if isinstance(value, int | float) else None


def _csv(table: Sequence[Row]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return out.getvalue()


def _latex(table: Sequence[Row]) -> str:
    """Means and standard deviations over seeds of what a comparison is decided from."""
    # Neither what looked for a learning rate nor what goes on yet is a seed of an arm.
    ended = [row for row in table if not row.get("search") and row["state"] != "unfinished"]
    tasks: dict[str, list[Row]] = {}
    for row in ended:
        tasks.setdefault(row["task"], []).append(row)
    if not any(_metric(own) for own in tasks.values()):
        raise LabError("no run of this folder has a number at a length: nothing to tabulate")
    return "\n".join(_tabular(task, own) for task, own in tasks.items())


def _metric(table: Iterable[Row]) -> str | None:
    known = {row["metric"] for row in table if row["length"] is not None}
    return next((metric for metric in _DECIDING if metric in known), None)


def _tabular(task: str, table: Sequence[Row]) -> str:
    """The means of one task; none where a run of the arm has no finite number."""
    metric = _metric(table)
    if metric is None:
        return f"% {task}: no run has a number at a length\n"
    lengths = sorted({row["length"] for row in table if row["metric"] == metric})
    arms: dict[Setting, dict[str, dict[int, float]]] = {}
    for row in table:
        by_length = arms.setdefault(_setting(row), {}).setdefault(row["run"], {})
        if row["metric"] == metric and row["state"] == "done":
            # The last row counts: an interrupted run may have written one twice.
            by_length[row["length"]] = math.nan if row["value"] is None else row["value"]
    failed = {row["run"] for row in table if row["state"] == "failed"}
    labels = _labels(arms)
    lines = [
        f"% {task}: {metric}, mean and standard deviation over seeds",
        r"\begin{tabular}{l" + "r" * len(lengths) + "}",
        " & ".join(["", *map(str, lengths)]) + r" \\ \hline",
    ]
    for setting, runs in arms.items():
        means = [_mean([own.get(length) for own in runs.values()]) for length in lengths]
        line = " & ".join([labels[setting].translate(_ESCAPES), *means])
        lines.append(rf"{line} \\{_lost(runs, failed)}")
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"


def _setting(row: Row) -> Setting:
    """What runs over whose seeds one may average have in common."""
    settings = [(key, row[key]) for key in row if key not in (*COLUMNS, "search")]
    return (("encoding", row["encoding"]), *settings)


def _labels(settings: Iterable[Setting]) -> dict[Setting, str]:
    """The encoding, with the settings in which it was run in several ways."""
    found: dict[str, list[dict[str, Any]]] = {}
    for setting in settings:
        found.setdefault(setting[0][1], []).append(dict(setting))
    labels = {}
    for encoding, ways in found.items():
        differing = [key for key in ways[0] if len({way[key] for way in ways}) > 1]
        told = [key for key in differing if key not in _DERIVED]
        for key in _DERIVED:
            if len({tuple(way[name] for name in told) for way in ways}) < len(ways):
                told += [key] if key in differing else []
        for way in ways:
            own = [f"{key}={_short(key, way[key])}" for key in told]
            labels[tuple(way.items())] = ", ".join([encoding, *own])
    return labels


def _short(key: str, value: Any) -> str:
    if value is None or value == "":
        return "none"
    return str(value)[: 12 if key in _HASHES else None]


def _mean(values: Sequence[float | None]) -> str:
    """None where a run failed, diverged or has no number: survivors alone have no mean."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < len(values):
        return "--"
    spread = rf" $\pm$ {stdev(known):.3f}" if len(known) > 1 else ""
    return f"{fmean(known):.3f}{spread}"


def _lost(runs: Mapping[str, Mapping[int, float]], failed: set[str]) -> str:
    """How many runs of an arm came to no end or to no number, as a comment."""
    ends = {
        "failed": len(failed & runs.keys()),
        "diverged": sum(not all(map(math.isfinite, own.values())) for own in runs.values()),
    }
    told = [f"{count} of {len(runs)} runs {end}" for end, count in ends.items() if count]
    return f" % {', '.join(told)}" if told else ""


def described(run: Run) -> Mapping[str, Any]:
    """Everything that is known of one run: what it was, on what, and its last numbers."""
    last = {
        row["kind"]: row for row in run.rows if row["kind"] in ("train", "cost", "done", "failed")
    }
    config = run.config.to_json()
    unread = OWN_SIZES if run.config.model else ()
    return {
        "run": run.path.name,
        "state": run.state,
        "config": {key: value for key, value in config.items() if key not in unread},
        "manifest": {key: value for key, value in run.manifest.items() if key != "config"},
        "numbers": list(_numbers(run)),
        "last": last,
        "problems": run.problems,
    }
