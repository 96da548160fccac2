"""Numbers of the evidence as cells and tables of Markdown."""

import math
from collections.abc import Iterable, Mapping, Sequence

from posenc.lab.arms import Arm
from posenc.lab.measured import Metric
from posenc.lab.wording import half_width
from posenc.report.numbers import DASH, number
from posenc.words import Words


def markdown(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table with a blank line before it."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def by_length(arms: Mapping[str, Arm], metric: Metric, say: Words) -> str:
    """A line for each arm that has the metric."""
    lengths = sorted({length for arm in arms.values() for length in arm.lengths(metric)})
    lines = [
        [label, *(cell(arm, metric, length, say) for length in lengths)]
        for label, arm in arms.items()
        if arm.lengths(metric)
    ]
    return markdown([say("head_arm"), *map(str, lengths)], lines)


def by_seed(arms: Mapping[str, Arm], metric: Metric, say: Words) -> str:
    lengths = sorted({length for arm in arms.values() for length in arm.lengths(metric)})
    lines = []
    for label, arm in arms.items():
        values = {length: arm.values(metric, length).by_seed for length in lengths}
        for seed in sorted({seed for found in values.values() for seed in found}):
            cells = (shown(values[length].get(seed), say) for length in lengths)
            lines.append([label, str(seed), *cells])
    return markdown([say("head_arm"), say("head_seed"), *map(str, lengths)], lines)


def cell(arm: Arm, metric: Metric, length: int, say: Words) -> str:
    """The mean with its interval; nothing where nothing was measured."""
    values = arm.values(metric, length).by_seed
    if not values:
        return ""
    if arm.failed:
        return say("runs_of", failed=arm.failed, runs=arm.runs)
    found = arm.interval(metric, length)
    if found is None:
        return shown(math.fsum(values.values()) / len(values), say)
    return f"{number(found.mean, 3)} {half_width(found, 3)}"


def shown(value: float | None, say: Words) -> str:
    return number(value, 3, lost=say("diverged")) if value is not None else DASH


def code(text: str) -> str:
    return f"`{text}`"


def named(arm: Arm, label: str, say: Words) -> str:
    """An encoding, what tells it apart, and where it was put on weights of another, which."""
    name = code(arm.encoding) + label.removeprefix(arm.encoding)
    if arm.base is not None:
        key, steps = ("tuned" if arm.trained else "on_weights"), arm.config.get("steps")
        return say(key, encoding=name, base=code(arm.base.encoding), steps=f"{steps}")
    return say("on_others", encoding=name) if arm.config.get("base") else name
