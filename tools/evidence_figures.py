"""The figure of a claim: what its arms came to at each length, with intervals."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import evidence
import torch
from matplotlib.figure import Figure

from posenc.analysis import plot
from posenc.analysis.plot.canvas import Canvas
from posenc.claims import Claim, find
from posenc.claims.evidence import arms
from posenc.claims.kept import kept
from posenc.lab.arms import Arm
from posenc.lab.measured import Metric
from posenc.lab.words.metrics import METRICS
from posenc.words import LANGUAGES, Texts

TEXTS: Texts = {
    "length": ("length", "长度"),
    **METRICS,
}
# Lengths that reach so many times as far stand on a scale of doublings.
DOUBLINGS = 4


def figure(claim: Claim, measured: Mapping[str, Arm], theme: str, language: str) -> Figure:
    """A panel for each metric that the claim speaks of."""
    metrics = evidence.spoken(claim, measured)
    texts = {**{metric: (metric, metric) for metric in metrics}, **TEXTS}
    page = Canvas(theme, language, texts=texts, height=3.2)
    panels = [page.axes(1, len(metrics), at + 1, grid="y") for at in range(len(metrics))]
    for axes, metric in zip(panels, metrics, strict=True):
        panel(page, axes, measured, metric)
    page.legend(panels[-1])
    return page.figure


def panel(page: Canvas, axes: Any, measured: Mapping[str, Arm], metric: Metric) -> None:
    """A line for each arm, in the style of its place among them."""
    lengths = sorted({n for arm in measured.values() for n in arm.lengths(metric)})
    for style, (label, arm) in enumerate(measured.items()):
        known = [(n, one) for n in arm.lengths(metric) if (one := arm.interval(metric, n))]
        if not known:
            continue
        x = torch.tensor([float(n) for n, _ in known])
        low, mean, high = (
            torch.tensor([getattr(one, end) for _, one in known]) for end in ("low", "mean", "high")
        )
        look = {"marker": page.marker(style), "markersize": 5, "label": label}
        page.line(axes, x, mean, style, **look)
        colour = page.theme.lines[style % len(page.theme.lines)]
        axes.fill_between(x.numpy(), low.numpy(), high.numpy(), color=colour, alpha=0.18, lw=0)
    if lengths[-1] >= DOUBLINGS * lengths[0]:
        axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.minorticks_off()
    for train in {arm.train for arm in measured.values()}:
        axes.axvline(train, color=page.theme.muted, linestyle="dotted", linewidth=1.0)
    page.label(axes, x="length", y=metric)


def draw(name: str, folder: Path) -> None:
    """The files of a claim; none where it has no result, or no number."""
    claim, found = find(name), kept(name)
    measured = arms(claim, found) if found else {}
    if not evidence.spoken(claim, measured):
        return
    for language in LANGUAGES:
        for theme in ("light", "dark"):
            drawn = figure(claim, measured, theme, language)
            plot.save(drawn, folder / language / f"claim-{name}.{theme}.svg")
