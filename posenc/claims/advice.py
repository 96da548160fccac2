"""What all results say to a length and a task of one's own, and what they do not say."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from posenc.claims.facts import Facts, facts
from posenc.encodings import members
from posenc.errors import SettingError, UnknownNameError
from posenc.lab.arms import Arm, interval, told_apart
from posenc.lab.encodings import spelled_name
from posenc.lab.intervals import Interval
from posenc.lab.measured import Metric
from posenc.lab.spelling import split
from posenc.lab.tasks import names
from posenc.lab.verdict import HOLDS

Speaks = Literal["for", "undecided", "measured", "against", "unlearned", "failed"]
# In the order in which they are told.
ORDER: tuple[Speaks, ...] = ("for", "undecided", "measured", "against", "unlearned", "failed")
# The share of right answers that an encoding may lose and be spoken for.
LOSES = 0.1
# Of the train length there is a trained table, to ask it; of the target there is none.
LONGEST = {"train": 1 << 22, "target": 1 << 40}
# Of encodings that no row speaks of.
SIZES = {"dim": 64, "heads": 4}


@dataclass(frozen=True)
class Question:
    """Trained on `train` tokens, read at `target`: how does it do at `task`, a kind or a name?"""

    train: int
    target: int
    task: str = "language"
    cache: bool = False

    def __post_init__(self) -> None:
        for name, longest in LONGEST.items():
            length = getattr(self, name)
            if not 1 <= length <= longest:
                raise SettingError(
                    f"advise --{name} {length}: a length is needed, from 1 token to {longest:,}"
                )

    @property
    def times(self) -> float:
        return self.target / self.train


@dataclass(frozen=True)
class Row:
    """What one arm has to say.

    label   its encoding, with what tells it from others of the same
    times   the measured number of train lengths that is nearest to what was asked
    found   what came out there; None where it cannot be told
    change  of the same weights, from the train length to there, the encoding of training first
    """

    arm: Arm
    label: str
    metric: Metric
    length: int
    times: float
    found: Interval | None
    change: Interval | None
    speaks: Speaks


@dataclass(frozen=True)
class Answer:
    """Rows in the order of what they say, and the encodings that none speaks of.

    facts  by encoding as it is spelled, where a small model can have it
    """

    question: Question
    tasks: tuple[str, ...]
    rows: tuple[Row, ...]
    unknown: tuple[str, ...]
    facts: dict[str, Facts]


def advise(question: Question, known: Iterable[Arm]) -> Answer:
    """Raises UnknownNameError for a task that is neither a kind nor a name."""
    tasks = _tasks(question.task)
    own = [
        arm
        for arm in known
        if arm.metric
        and arm.task.partition("(")[0].strip() in tasks
        # What was never read beyond its training says nothing of that.
        and (question.times <= 1 or max(arm.lengths(arm.metric)) > arm.train)
    ]
    rows = [_row(question, arm, label) for arm, label in zip(own, _labels(own), strict=True)]
    rows.sort(key=lambda row: (ORDER.index(row.speaks), _rank(row), row.label))
    spoken = {spelled_name(part) for arm in own for part in split(arm.encoding, "+")}
    unknown = [
        name
        for name, kind in members().items()
        if name not in spoken and kind.tags.comparable is True
    ]
    sizes = {
        arm.encoding: SIZES if arm.config.get("model") else {key: arm.config[key] for key in SIZES}
        for arm in own
    }
    sizes |= dict.fromkeys(unknown, SIZES)
    found = {
        encoding: facts(encoding, question.train, question.target, cache=question.cache, **own)
        for encoding, own in sizes.items()
    }
    told = {encoding: one for encoding, one in found.items() if one is not None}
    return Answer(question, tuple(sorted(tasks)), tuple(rows), tuple(unknown), told)


def kinds() -> dict[str, list[str]]:
    """The names of tasks by what they ask of a model."""
    found: dict[str, list[str]] = {}
    for name, task in names().items():
        if task.kind:
            found.setdefault(task.kind, []).append(name)
    return found


def _tasks(asked: str) -> set[str]:
    known, of_kind = names(), kinds()
    if asked in of_kind:
        return {*of_kind[asked]}
    if asked not in known:
        raise UnknownNameError("task", asked, sorted({*of_kind, *known}))
    return {asked}


def _labels(arms: Sequence[Arm]) -> list[str]:
    """Told apart within each task."""
    by_task = {arm.task: [one for one in arms if one.task == arm.task] for arm in arms}
    found = {
        id(arm): label
        for own in by_task.values()
        for arm, label in zip(own, told_apart(own), strict=True)
    }
    return [found[id(arm)] for arm in arms]


def _row(question: Question, arm: Arm, label: str) -> Row:
    metric = arm.metric or "loss"
    tested = arm.lengths(metric) if arm.learned else [arm.train]

    def apart(length: int) -> tuple[float, int]:
        # Of two that are as near the longer says more; logarithms of the same ratio may round.
        return round(abs(math.log(length / arm.train / question.times)), 9), -length

    length = min(tested, key=apart)
    found, change = arm.interval(metric, length), _change(arm, metric, length)
    speaks = _speaks(question, arm, metric, length, change)
    return Row(arm, label, metric, length, length / arm.train, found, change, speaks)


def _change(arm: Arm, metric: Metric, length: int) -> Interval | None:
    """Seed by seed against the weights as they were trained, at the train length."""
    first = arm.base or arm
    if arm.failed or first.failed or (arm.base is None and arm.config.get("base")):
        return None
    if first is arm and length == arm.train:
        return None
    then, now = first.values(metric, first.train), arm.values(metric, length)
    return interval(now.minus(then))


def _speaks(
    question: Question, arm: Arm, metric: Metric, length: int, change: Interval | None
) -> Speaks:
    if arm.failed:
        return "failed"
    if not arm.learned:
        return "unlearned"
    # What was read no farther than in training says nothing of what lies beyond.
    if question.times > 1 and length <= arm.train:
        return "measured"
    if change is None:
        return "for" if metric == "exact" and length == arm.train else "measured"
    if metric == "exact":
        kept, lost = change.low > -LOSES, change.high < -LOSES
    else:
        kept, lost = change.high < HOLDS, change.low > HOLDS
    return "for" if kept else "against" if lost else "undecided"


def _rank(row: Row) -> float:
    """The best first: the least loss, the largest share."""
    mean = row.found.mean if row.found else math.inf
    return -mean if row.metric == "exact" else mean
