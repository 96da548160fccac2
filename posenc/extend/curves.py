"""The lines of the page's pictures, out of report.json."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from posenc.extend.sentences import SLIDING, called
from posenc.lab.figures import Curve
from posenc.words import Words

# A word that gets e^3, twenty times less than from the best, tells no more of who is good.
ABOVE_BEST = 3.0


def names(data: dict[str, Any]) -> list[str]:
    """Every method, and the sliding window behind them: the place of a name is its style."""
    return [*data["methods"], *([SLIDING] if data["sliding"]["windows"] else [])]


def by_context(data: dict[str, Any], say: Words) -> list[Curve]:
    """The loss of the same tokens, by how much is read; a dot for each span."""
    curves = []
    for style, name in enumerate(names(data)):
        losses = _of(data, name)["targets"]
        dots = [
            (float(length), loss)
            for length, one in losses.items()
            for loss in one["spans"].values()
            if loss is not None
        ]
        curves.append(
            Curve(
                called(name, say),
                style,
                tuple(float(length) for length in losses),
                tuple(_finite(one["mean"]) for one in losses.values()),
                dots=tuple(dots),
            )
        )
    return curves


def by_position(data: dict[str, Any], say: Words) -> list[Curve]:
    """The loss in bins of position of the longest window."""
    longest, curves = str(max(data["to"])), []
    for style, name in enumerate(names(data)):
        window = _of(data, name)["windows"].get(longest)
        if window is None:
            continue
        middles = tuple((a + b) / 2 for a, b in pairwise(window["edges"]))
        curves.append(Curve(called(name, say), style, middles, tuple(map(_finite, window["bins"]))))
    return curves


def highest(curves: Sequence[Curve]) -> float:
    """Where a picture ends, so that what broke does not flatten the rest."""
    return min((y for curve in curves for _, y in curve.finite), default=0.0) + ABOVE_BEST


def _of(data: dict[str, Any], name: str) -> dict[str, Any]:
    return data["sliding"] if name == SLIDING else data["methods"][name]


def _finite(loss: float | None) -> float:
    return math.inf if loss is None else loss
