"""Runs that differ in their seeds alone, and what they came to."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from posenc.lab.folder import Run
from posenc.lab.intervals import LEVEL, Interval
from posenc.lab.measured import Metric, Values, bounds, number, own_error, row_of
from posenc.lab.rates import is_search
from posenc.lab.statistics import mean
from posenc.lab.table import without_seed
from posenc.lab.tasks import task_of

Rows = tuple[Mapping[str, Any], ...]
# By position the tokens of another length are others: no table by length.
METRICS: tuple[Metric, ...] = tuple(m for m in get_args(Metric) if m != "position")
# What an arm is told by first: right answers where there are any, else the loss.
FIRST: tuple[Metric, ...] = ("exact", "loss", "windows")
ALWAYS = ("positions", "model")
NOT_OF_TRAINING = (
    "encoding", "settings", "task", "test_lengths", "spans", "version", "base", "weights"
)  # fmt: skip


@dataclass(frozen=True)
class Arm:
    """Runs that differ in their seeds alone.

    config  what they share
    rows    of each seed
    runs, failed   how many there were, and how many of them came to no end
    claims  who ran them
    gate    the share of right answers at the train length that a claim asks for
    base    the arm whose weights they began with
    """

    config: Mapping[str, Any]
    rows: Mapping[int, Rows]
    runs: int
    failed: int
    claims: tuple[str, ...] = ()
    gate: float = 0.0
    base: "Arm | None" = None

    @property
    def encoding(self) -> str:
        return str(self.config["encoding"])

    @property
    def task(self) -> str:
        return str(self.config.get("task", "text"))

    @property
    def kind(self) -> str:
        """What its task asks of a model; empty for a task that there is no more."""
        known = task_of(self.task)
        return known.kind if known else ""

    @property
    def train(self) -> int:
        """As a claim counts it: that of the weights it began with, if it did."""
        return self.base.train if self.base else int(self.config["train_length"])

    @property
    def trained(self) -> bool:
        """Whether it was trained with its encoding, or given the weights of another as they are."""
        return self.config.get("steps") != 0

    @property
    def metric(self) -> Metric | None:
        return next((metric for metric in FIRST if self.lengths(metric)), None)

    def metrics(self) -> list[Metric]:
        return [metric for metric in METRICS if self.lengths(metric)]

    def lengths(self, metric: Metric) -> list[int]:
        """Where it was tested."""
        known = {row["length"] for rows in self.rows.values() for row in rows if "length" in row}
        return sorted(length for length in known if self.values(metric, length).by_seed)

    def values(self, metric: Metric, length: int) -> Values:
        """By seed; infinite where a loss is no finite number, or one could not be tested."""
        found = {seed: row_of(rows, metric, length) for seed, rows in self.rows.items()}
        found = {seed: row for seed, row in found.items() if row is not None}
        by_seed = {seed: number(row, metric, length) for seed, row in found.items()}
        if found:
            by_seed |= dict.fromkeys(self.lacking(length) - found.keys(), math.inf)
        error = own_error([*found.values()], metric, self.task)
        return Values(by_seed, error, bounds(metric))

    def lacking(self, length: int) -> set[int]:
        """The seeds that could not give a number there, as where memory ended."""
        return {
            seed
            for seed, rows in self.rows.items()
            if any(row["kind"] == "missing" and row["length"] == length for row in rows)
        }

    def interval(self, metric: Metric, length: int) -> Interval | None:
        """Over seeds; None for fewer than two, and where a run failed or diverged.

        Without those the survivors would be told of.
        """
        return None if self.failed else interval(self.values(metric, length))

    def needed(self) -> float | None:
        """The share of right answers at the train length below which nothing is said beyond.

        It is half of the way from chance to all, or what a claim asks for; None for texts.
        """
        chances = [
            row["chance"]
            for rows in self.rows.values()
            if (row := row_of(rows, "exact", self.train)) is not None and "chance" in row
        ]
        return max(self.gate, (1 + chances[0]) / 2) if chances else None

    def told(self) -> dict[str, Any]:
        """What they share, and each number by length and seed; null where it is not finite."""
        return {
            "config": dict(self.config),
            "runs": self.runs,
            "failed": self.failed,
            "learned": self.learned,
            "numbers": {
                metric: {
                    str(n): {
                        str(seed): value if math.isfinite(value) else None
                        for seed, value in self.values(metric, n).by_seed.items()
                    }
                    for n in self.lengths(metric)
                }
                for metric in self.metrics()
            },
        }

    @property
    def learned(self) -> bool:
        """Whether it does its task at the train length, as far as any run came to its end."""
        if not self.rows:
            return False
        needed, shares = self.needed(), self.values("exact", self.train).by_seed.values()
        return needed is None or sum(shares) >= needed * len(shares)


def interval(values: Values) -> Interval | None:
    """Student's t over seeds; None for fewer than two, or where one is not finite."""
    drawn = list(values.by_seed.values())
    if len(drawn) < 2 or not all(map(math.isfinite, drawn)):
        return None
    return mean(drawn, LEVEL, values.error, values.within)


def of_runs(runs: Iterable[Run]) -> list[Arm]:
    """The arms of runs that are done or failed, in their order; those that found rates are none."""
    found: dict[str, list[Run]] = {}
    runs = list(runs)
    by_name = {run.path.name: run for run in runs}
    for run in runs:
        if not is_search(run.config) and run.state != "unfinished":
            found.setdefault(_shared(run, by_name), []).append(run)
    return [
        Arm(
            own[0].config.to_json(),
            {run.config.seed: tuple(run.rows) for run in own if run.state == "done"},
            len(own),
            sum(run.state == "failed" for run in own),
        )
        for own in found.values()
    ]


def _shared(run: Run, runs: Mapping[str, Run]) -> str:
    """What runs of one arm have in common; what each began with differs in its seed alone."""
    own = replace(run.config, seed=0, base=without_seed(run.config.base, runs))
    return json.dumps(own.to_json(), sort_keys=True)


def told_apart(arms: Sequence[Arm]) -> list[str]:
    """The encoding of each, and what it was trained with where arms of one encoding differ.

    Positions that are drawn, and a model that was not made here, are always told.
    """
    found = []
    for arm in arms:
        kind = (arm.encoding, arm.trained, bool(arm.config.get("base")))
        alike = [
            one for one in arms if (one.encoding, one.trained, bool(one.config.get("base"))) == kind
        ]
        differing = [
            f"{key}={arm.config.get(key)}"
            for key in sorted({key for one in alike for key in one.config} - {*NOT_OF_TRAINING})
            if arm.config.get(key) is not None
            and (key in ALWAYS or len({repr(one.config.get(key)) for one in alike}) > 1)
        ]
        found.append(", ".join([arm.encoding, *differing]))
    return found
