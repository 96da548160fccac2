"""What was trained at one length and tested at another, as colours."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from posenc.analysis.plot.canvas import Canvas
from posenc.errors import LabError
from posenc.lab.arms import Arm
from posenc.lab.measured import Metric
from posenc.lab.words.metrics import METRICS
from posenc.report.numbers import number
from posenc.words import Language, Texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXTS: Texts = {
    "trained": ("trained on", "训练长度"),
    "tested": ("tested at", "测试长度"),
    "name": ("{name}", "{name}"),
    **METRICS,
}
# Panels in a line, and cells in it that are wide enough for a number.
ABREAST, WRITTEN = 3, 18


def heat_map(
    arms: Sequence[Arm], metric: Metric | None = None, theme: str = "light", lang: Language = "en"
) -> "Figure":
    """A panel for each encoding: train lengths (rows) by test lengths (columns), means over seeds.

    Without a metric it is the share of right answers, or the loss where there is none. What an arm
    that has not learned its task says of other lengths is left blank, and so is what failed.
    Raises LabError where no arm has the metric.
    """
    chosen = metric or next((arm.metric for arm in arms if arm.metric), None)
    own = [arm for arm in arms if chosen and arm.lengths(chosen)]
    if chosen is None or not own:
        raise LabError(f"no run of these has {metric or 'a number'} at a length")
    names = list(dict.fromkeys(arm.encoding for arm in own))
    trains = sorted({arm.train for arm in own})
    tests = sorted({length for arm in own for length in arm.lengths(chosen)})
    at = {(arm.encoding, arm.train): arm for arm in own}
    if len(at) < len(own):
        raise LabError(
            "several runs of one encoding at one train length differ in more than their seeds: "
            "choose one task with --task"
        )
    columns = min(ABREAST, len(names))
    lines = -(-len(names) // columns)
    height = 0.6 + lines * (1.1 + 0.35 * len(trains))
    page = Canvas(theme, lang, chosen, height=height, texts=TEXTS)
    values = {
        name: torch.tensor(
            [[_mean(at.get((name, train)), chosen, test) for test in tests] for train in trains]
        )
        for name in names
    }
    finite = torch.cat([one[one.isfinite()] for one in values.values()])
    if not finite.numel():
        raise LabError(f"every run of these failed, or its {chosen} is no finite number")
    shares = chosen in ("exact", "token")
    least, most = float(finite.min()), float(finite.max())
    # Where all are the same, there is no scale to draw.
    limits = (0.0, 1.0) if shares else (least, most if most > least else least + 1.0)
    panels = [page.axes(lines, columns, place + 1) for place in range(len(names))]
    for place, (axes, name) in enumerate(zip(panels, names, strict=True)):
        page.heat(axes, values[name], palette="sequential", limits=limits, origin="lower")
        axes.set_xticks(range(len(tests)), [str(length) for length in tests])
        axes.set_yticks(range(len(trains)), [str(length) for length in trains])
        first = "trained" if place % columns == 0 else ""
        page.label(axes, x="tested", y=first, title="name", name=name)
        if columns * len(tests) <= WRITTEN:
            _write(page, axes, values[name])
    page.bar(panels[-1], "sequential", *limits, "")
    return page.figure


def _write(page: Canvas, axes: Any, values: Tensor) -> None:
    """Each cell's number, in its middle."""
    for row, numbers in enumerate(values.tolist()):
        for column, value in enumerate(numbers):
            if math.isfinite(value):
                text = number(value)
                page.write(axes, text, (column, row), fontsize=7, ha="center", va="center")


def _mean(arm: Arm | None, metric: Metric, length: int) -> float:
    if arm is None or arm.failed or (not arm.learned and length != arm.train):
        return math.nan
    values = arm.values(metric, length).by_seed.values()
    return sum(values) / len(values) if values else math.nan
