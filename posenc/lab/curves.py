"""The lines of the report's pictures, out of a study's measurements."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from posenc.lab.aggregate import Protocol, Study
from posenc.lab.figures import Curve
from posenc.lab.intervals import Interval
from posenc.report.numbers import number
from posenc.words import Words

MOST_POINTS = 40

Intervals = Mapping[tuple[Protocol, int], Mapping[str, Interval]]


def length_curves(study: Study, protocol: Protocol, found: Intervals) -> list[Curve]:
    """Mean loss against length, its interval where there is one, and the seeds' own losses."""
    curves = []
    for style, name in enumerate(study.encodings):
        losses = {n: study.losses(protocol, name, n) for n in study.lengths}
        losses = {n: by_seed for n, by_seed in losses.items() if by_seed}
        known = [found[protocol, n].get(name) for n in losses]
        widths = [one.half if one else 0.0 for one in known]
        curves.append(
            Curve(
                study.label(name),
                style,
                tuple(map(float, losses)),
                tuple(mean(by_seed.values()) for by_seed in losses.values()),
                tuple(widths) if any(widths) else (),
                tuple((float(n), y) for n, by_seed in losses.items() for y in by_seed.values()),
            )
        )
    return curves


def position_curves(study: Study) -> list[Curve]:
    """Loss by position in the longest window, averaged over seeds, in at most 40 steps."""
    return _row_curves(study, _by_position)


def training_curves(study: Study) -> list[Curve]:
    """Training loss against step, averaged over seeds, in at most 40 steps."""
    return _row_curves(study, _by_step)


def mean(values: Iterable[float]) -> float:
    """The mean; infinite as soon as one value is, so that a diverged seed is never left out."""
    values = list(values)
    return fmean(values) if all(map(math.isfinite, values)) else math.inf


def described(curves: Sequence[Curve], what: str, say: Words) -> str:
    """What a screen reader says of a picture: what it is, and where each line starts and ends."""
    lost = say("diverged")
    said = [
        say(
            "alt_curve",
            name=curve.label,
            first=number(curve.y[0], lost=lost),
            last=number(curve.y[-1], lost=lost),
            start=curve.x[0],
            end=curve.x[-1],
        )
        for curve in curves
        if curve.x
    ]
    return say("alt", what=what, curves=say("semicolon").join(said))


def _row_curves(study: Study, read: Any) -> list[Curve]:
    curves = []
    for style, name in enumerate(study.encodings):
        series = [read(one.run.rows) for one in study.of(name)]
        # Runs on a budget of minutes end at different steps: what all of them reached is drawn, and
        # nothing where one has no points, as where its loss is no finite number.
        columns = list(zip(*series, strict=False))
        x = [mean(point[0] for point in column) for column in columns]
        y = [mean(point[1] for point in column) for column in columns]
        curves.append(Curve(study.label(name), style, *_coarse(x, y)))
    return curves


def _by_position(rows: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    for row in reversed(rows):
        match row:
            case {"kind": "by_position", "edges": list(edges), "loss": list(losses)}:
                middles = [(a + b) / 2 for a, b in pairwise(edges)]
                return [(x, _finite(y)) for x, y in zip(middles, losses, strict=False)]
    return []


def _by_step(rows: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    steps = {}
    for row in rows:
        match row:
            case {"kind": "train", "step": int(step), "loss": loss}:
                steps[step] = _finite(loss)
    return sorted(steps.items())


def _finite(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else math.inf


def _coarse(x: list[float], y: list[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Neighbouring points averaged, so that a narrow picture shows a line and not noise."""
    size = math.ceil(len(x) / MOST_POINTS) or 1
    groups = range(0, len(x), size)
    return (
        tuple(mean(x[i : i + size]) for i in groups),
        tuple(mean(y[i : i + size]) for i in groups),
    )
