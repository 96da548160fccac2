"""What all results know together: each arm once, whichever claims ran it, with its numbers."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from posenc.claims.claim import Claim, Metric
from posenc.claims.measured import number, row_of
from posenc.claims.verdict import Values
from posenc.lab.intervals import LEVEL, Interval
from posenc.lab.statistics import mean, share_error
from posenc.lab.tasks import names

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
        known = names().get(self.task.partition("(")[0].strip())
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
        """By seed; infinite where a loss is no finite number."""
        found = {seed: row_of(rows, metric, length) for seed, rows in self.rows.items()}
        found = {seed: row for seed, row in found.items() if row is not None}
        by_seed = {seed: number(row, metric, length) for seed, row in found.items()}
        if metric != "exact" or not found:
            return Values(by_seed)
        hits = [row["exact"] for row in found.values()]
        return Values(by_seed, share_error(hits, next(iter(found.values()))["examples"]))

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

    @property
    def learned(self) -> bool:
        """Whether it does its task at the train length."""
        needed, shares = self.needed(), self.values("exact", self.train).by_seed.values()
        return needed is None or sum(shares) >= needed * len(shares)


def interval(values: Values) -> Interval | None:
    """Student's t over seeds; None for fewer than two, or where one is not finite."""
    drawn = list(values.by_seed.values())
    if len(drawn) < 2 or not all(map(math.isfinite, drawn)):
        return None
    return mean(drawn, LEVEL, values.error)


def arms(claim: Claim, found: Mapping[str, Any]) -> dict[str, Arm]:
    """The arms of one result by label."""
    named = claim.arms(found["size"])
    made: dict[str, Arm] = {}
    bases = {label: named[label].base for label in found["arms"] if label in named}
    # Who begins with another comes after it.
    for label in sorted(found["arms"], key=lambda one: bool(bases.get(one))):
        one = found["arms"][label]
        rows = {int(seed): tuple(own) for seed, own in one["rows"].items()}
        made[label] = Arm(
            one["config"],
            rows,
            one["runs"],
            one["failed"],
            (claim.name,),
            claim.learned or 0.0,
            made.get(bases.get(label, "")),
        )
    return {label: made[label] for label in found["arms"]}


def evidence(results: Iterable[tuple[Claim, Mapping[str, Any]]]) -> list[Arm]:
    """Every arm of all results, each once; a run that two claims share counts once."""
    merged: dict[str, Arm] = {}
    for claim, found in results:
        for arm in arms(claim, found).values():
            key = _key(arm.config)
            merged[key] = _joined(merged[key], arm) if key in merged else arm
    return list(merged.values())


def _key(config: Mapping[str, Any]) -> str:
    own = {key: value for key, value in config.items() if key != "test_lengths"}
    return json.dumps(own, sort_keys=True)


def _joined(first: Arm, second: Arm) -> Arm:
    """Rows that both have are the same; the later ones of a length are read."""
    seeds = sorted({*first.rows, *second.rows})
    return Arm(
        first.config,
        {seed: (*first.rows.get(seed, ()), *second.rows.get(seed, ())) for seed in seeds},
        max(first.runs, second.runs),
        max(first.failed, second.failed),
        tuple(dict.fromkeys((*first.claims, *second.claims))),
        max(first.gate, second.gate),
        first.base or second.base,
    )


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
            if len({repr(one.config.get(key)) for one in alike}) > 1
            or (key in ALWAYS and arm.config.get(key))
        ]
        found.append(", ".join([arm.encoding, *differing]))
    return found
