"""The numbers of a run by metric and length, from the rows that it left."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from posenc.lab.intervals import UNBOUNDED
from posenc.lab.statistics import share_error
from posenc.lab.tasks import has_own_examples

SHARES = ("exact", "token")
Metric = Literal["loss", "windows", "position", "exact", "token"]
"""
loss      of fixed targets, in nats per token (or of the scored places of a made task)
windows   loss of all tokens of whole windows, as most papers report it
position  loss of the tokens from half of that length up to it, in the longest windows: at
          another length those are other tokens
exact     share of whole answers that are right
token     share of scored places that are right
"""


@dataclass(frozen=True)
class Values:
    """What a number came to: by seed, how far all are off together, and where it must lie."""

    by_seed: Mapping[int, float]
    error: float = 0.0
    within: tuple[float, float] = UNBOUNDED

    def minus(self, other: "Values") -> "Values":
        """Seed by seed, of the seeds that both have."""
        seeds = sorted({*self.by_seed} & {*other.by_seed})
        return Values(
            {seed: self.by_seed[seed] - other.by_seed[seed] for seed in seeds},
            math.hypot(self.error, other.error),
            (self.within[0] - other.within[1], self.within[1] - other.within[0]),
        )


def bounds(metric: Metric) -> tuple[float, float]:
    """Where a number must lie."""
    return (0.0, 1.0) if metric in SHARES else UNBOUNDED


def own_error(rows: Sequence[Mapping], metric: Metric, task: str) -> float:
    """By how much the rows of all seeds, at one length, are off together: 0 but for shares.

    Places of one example may be right or wrong together, so that a share of places tells no more
    than that of as many examples.
    """
    if metric not in SHARES or not rows:
        return 0.0
    examples = rows[0]["examples"]
    hits = [number(row, metric, row["length"]) * examples for row in rows]
    return share_error(hits, examples, own=has_own_examples(task))


def row_of(rows: Sequence[Mapping], metric: Metric, length: int) -> Mapping | None:
    """The last row that holds a metric at a length."""
    for row in reversed(rows):
        # Where a loss is no finite number, there is none by position.
        lost = row["kind"] == "loss" and row["loss"] is None
        if metric == "position" and (row["kind"] == "by_position" or lost):
            return row
        if row.get("length") != length:
            continue
        if row["kind"] == "accuracy" and metric in ("exact", "token", "loss"):
            return row
        protocol = "windows" if metric == "windows" else "targets"
        if row["kind"] == "loss" and row["protocol"] == protocol and metric in ("loss", "windows"):
            return row
    return None


def number(row: Mapping, metric: Metric, length: int) -> float:
    if metric == "exact":
        return row["exact"] / row["examples"]
    if metric == "position" and row["kind"] == "by_position":
        parts = zip(itertools.pairwise(row["edges"]), row["loss"], strict=True)
        return fmean(loss for (low, high), loss in parts if length / 2 <= low and high <= length)
    value = row["token"] if metric == "token" else row["loss"]
    return float(value) if isinstance(value, int | float) else math.inf
