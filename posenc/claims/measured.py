"""The numbers that claims speak of, from the rows of their runs."""

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from posenc.claims.claim import Cell, Metric
from posenc.claims.verdict import Values
from posenc.lab.folder import Run
from posenc.lab.statistics import share_error


def values(cell: Cell, runs: Sequence[Run], length: int) -> Values | None:
    """A cell of the runs of its arm, at a length; None where none has it.

    A loss that is no finite number, and every number of a run that failed, is infinite: without
    them the survivors would be judged. Runs that have not ended are left out.
    """
    by_seed, hits, tries = {}, [], 0
    for run in runs:
        if run.state == "failed":
            by_seed[run.config.seed] = math.inf
        if run.state != "done":
            continue
        row = row_of(run.rows, cell.metric, length)
        if row is None:
            continue
        by_seed[run.config.seed] = number(row, cell.metric, length)
        if cell.metric == "exact":
            hits.append(row["exact"])
            tries = row["examples"]
    return Values(by_seed, share_error(hits, tries) if hits else 0.0) if by_seed else None


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
