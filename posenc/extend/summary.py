"""What report.json holds: every number of the page, as plain data.

    version, command      of this layout; what repeats the run
    model, text, machine  what was read, on what
    trained, to, targets, short, spans, needles, seed, level
    methods               by name: the encoding of its first layer that turns, and what was found
        tuning            of a row that was trained on: {"steps", "length", "rate", "rank",
                          "windows", "first", "last", "seconds", "file"}
        short             {"spans", "mean", "change"}
        windows           by length: {"edges", "bins", "spans", "mean"}
        targets           by length: {"spans", "mean", "behind_sliding"}
        passkey           by length, by depth: {"hits", "tries", "low", "high", "rank"}
        passkeys          by length, all depths together; control, without a needle
        cost              by length: {"seconds", "peak_mb"} of one whole window
    sliding               {"windows", "targets"} of the model as it is, in windows as long as it
                          was trained on
    verdict               what the numbers allow to say
    unavailable, failed   methods and cells without a result, with the reason
    done, planned         how many cells

Losses are nats per token, by span ("spans") and their mean, null where one is no finite number;
change (against the model's own) and behind_sliding are {"mean", "low", "high"} of differences span
by span. A rank is the worst of a key's tokens, averaged: 0 is what greedy decoding takes.
"""

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from posenc.extend.cells import DEPTHS, OWN, Cell
from posenc.extend.intervals import differences
from posenc.lab.statistics import wilson

VERSION = 1
Rows = dict[Cell, dict[str, Any]]
Data = dict[str, Any]


def found(rows: Rows, methods: tuple[str, ...]) -> Data:
    """What was found of the methods, and of the model in sliding windows."""
    sliding = {cell: row for cell, row in rows.items() if cell.measure == "sliding"}
    every = {name: _method(rows, name) for name in methods}
    windows = _by_length(sliding, ("sliding",), _windows)
    targets = _by_length(sliding, ("sliding",), _losses("targets"))
    for length, losses in targets.items():
        behind = against(losses, {name: one["targets"].get(length) for name, one in every.items()})
        for name, interval in behind.items():
            every[name]["targets"][length]["behind_sliding"] = interval
    own = every.get(OWN, {}).get("short")
    if own is not None:
        changes = against(own, {name: every[name]["short"] for name in methods if name != OWN})
        for name, interval in changes.items():
            every[name]["short"]["change"] = interval
    return {"methods": every, "sliding": {"windows": windows, "targets": targets}}


def against(base: Data, others: Mapping[str, Data | None]) -> dict[str, Data | None]:
    """Losses minus those of `base`, span by span: intervals that hold together, None for one span.

    A method without a loss, or whose loss is no number in some span, is left out.
    """
    pairs = {
        name: [(loss, base["spans"].get(index)) for index, loss in other["spans"].items()]
        for name, other in others.items()
        if other is not None
    }
    whole = {
        name: [a - b for a, b in found if a is not None and b is not None]
        for name, found in pairs.items()
    }
    intervals = differences({name: x for name, x in whole.items() if len(x) == len(pairs[name])})
    return {
        name: {"mean": x.mean, "low": x.low, "high": x.high} if x else None
        for name, x in intervals.items()
    }


def _method(rows: Rows, name: str) -> Data:
    own = {cell: row for cell, row in rows.items() if cell.row == name}
    short = _by_length(own, ("short",), _losses("loss"))
    return {
        "short": next(iter(short.values()), None),
        "windows": _by_length(own, ("windows",), _windows),
        "targets": _by_length(own, ("targets", "windows"), _losses("targets")),
        "passkey": _by_length(own, ("passkey",), _by_depth),
        "passkeys": _by_length(own, ("passkey",), _share),
        "control": _by_length(own, ("control",), _share),
        "cost": _by_length(own, ("windows",), _cost),
    }


def _by_length(
    rows: Rows, measures: tuple[str, ...], summed: Callable[[Rows], Data]
) -> dict[str, Data]:
    chosen = {cell: row for cell, row in rows.items() if cell.measure in measures}
    return {
        str(length): summed({cell: row for cell, row in chosen.items() if cell.length == length})
        for length in sorted({cell.length for cell in chosen})
    }


def _losses(name: str) -> Callable[[Rows], Data]:
    def summed(rows: Rows) -> Data:
        spans = {str(cell.index): row["result"][name] for cell, row in rows.items()}
        return {"spans": spans, "mean": _mean(spans.values())}

    return summed


def _windows(rows: Rows) -> Data:
    results = [row["result"] for row in rows.values()]
    columns = zip(*(result["bins"] for result in results), strict=True)
    bins = [_mean(column) for column in columns]
    return {"edges": results[0]["edges"], "bins": bins} | _losses("loss")(rows)


def _by_depth(rows: Rows) -> dict[str, Data]:
    return {
        f"{depth:g}": _share({cell: row for cell, row in rows.items() if cell.depth == depth})
        for depth in DEPTHS
        if any(cell.depth == depth for cell in rows)
    }


def _share(rows: Rows) -> Data:
    results = [row["result"] for row in rows.values()]
    hits, tries = sum(result["exact"] for result in results), len(results)
    low, high = wilson(hits, tries)
    rank = fmean(max(result["ranks"]) for result in results)
    return {"hits": hits, "tries": tries, "low": low, "high": high, "rank": rank}


def _cost(rows: Rows) -> Data:
    peaks = [row["peak_mb"] for row in rows.values() if row["peak_mb"] is not None]
    return {
        "seconds": fmean(row["seconds"] for row in rows.values()),
        "peak_mb": max(peaks, default=None),
    }


def _mean(losses: Any) -> float | None:
    losses = list(losses)
    return None if not losses or None in losses else fmean(losses)
