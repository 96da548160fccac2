"""What the numbers allow to say: which encodings hold, degrade or break, and who is best.

Every decision rests on the `targets` protocol, in which all lengths score the same bytes, and on
`intervals.interval`; where an interval reaches across a threshold, nothing is decided.

    breaks      loss(near) - loss(train) is above 1 nat per byte: the right byte got less than 1/e
                of its probability; near is the first tested length of at least twice the train
                length
    holds       it does not break, and loss(longest) - loss(train) is below 0.05
    degrades    it does not break, and loss(longest) - loss(train) is above 0.05
    undecided   the 95% intervals allow more than one of these
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from posenc.lab.aggregate import PROTOCOLS, Protocol, Study
from posenc.lab.intervals import LEVEL, Interval, Noise, Sample, fit_noise, interval, shown
from posenc.words import Saying

T = TypeVar("T")

HOLDS = 0.05
BREAKS = 1.0
BASELINE = "none"

HELD, DEGRADED, BROKEN = "holds", "degrades", "breaks"
UNDECIDED, DIVERGED, UNMEASURED = "undecided", "diverged", "not judged"


@dataclass(frozen=True)
class Judgement:
    """One encoding's category, the intervals that it was decided from, and why not otherwise."""

    category: str
    near: Interval | None = None
    far: Interval | None = None
    reason: Saying | None = None


@dataclass(frozen=True)
class Ranking:
    """Who has the lowest mean loss at a length, and how far the others are behind.

    `behind` holds loss - loss(best), paired by seed, each at 1 - 0.05 / comparisons; `shown` how
    large a difference from the best would have had to be to be told in four of five cases. As the
    best is chosen by the same losses, 95% is for this: the one that is best in truth is not among
    `worse` (multiple comparisons with the best, Hsu 1984). It is not for the distance between two
    that are both behind it, of which one happened to come out first.
    """

    length: int
    best: str
    behind: dict[str, Interval]
    shown: dict[str, float]
    unranked: tuple[str, ...]

    @property
    def ties(self) -> tuple[str, ...]:
        """The encodings that cannot be told apart from the best."""
        return tuple(name for name, gap in self.behind.items() if gap.low <= 0)

    @property
    def worse(self) -> tuple[str, ...]:
        return tuple(name for name, gap in self.behind.items() if gap.low > 0)


@dataclass(frozen=True)
class Verdict:
    """Everything that the report decides, and the intervals that it decides from."""

    near: int | None
    noise: Noise
    losses: dict[tuple[Protocol, int], dict[str, Interval]]
    judgements: dict[str, Judgement]
    windows: dict[str, Judgement]  # the same rule on the other protocol
    rankings: dict[int, Ranking]  # at the train length and at the longest
    against_none: dict[int, dict[str, Interval]]  # loss - loss without position, likewise


def decide(study: Study) -> Verdict:
    """The verdict on a study; parts that need more seeds or lengths than there are stay empty."""
    names, ends = study.encodings, sorted({study.train_length, study.longest})
    rankings = {n: ranking(study, n) for n in ends}
    losses: dict[tuple[Protocol, int], dict[str, Interval]] = {}
    for protocol in PROTOCOLS:
        noise = study_noise(study, protocol)
        for length in study.lengths:
            samples = {name: study.sample(protocol, name, length) for name in names}
            losses[protocol, length] = {
                name: interval(sample, noise)
                for name, sample in samples.items()
                if sample and sample.freedom
            }
    return Verdict(
        near=near_length(study),
        noise=study_noise(study, "targets"),
        losses=losses,
        judgements=judgements(study, "targets"),
        windows=judgements(study, "windows"),
        rankings={length: found for length, found in rankings.items() if found},
        against_none={n: gaps(study, BASELINE, n) if BASELINE in names else {} for n in ends},
    )


def near_length(study: Study) -> int | None:
    """The first tested length of at least twice the train length, else the longest past it."""
    past = [length for length in study.lengths if length > study.train_length]
    twice = [length for length in past if length >= 2 * study.train_length]
    return twice[0] if twice else past[-1] if past else None


def judge(near: Interval, far: Interval) -> Judgement:
    """The category that a rise at the near and at the longest length leaves possible."""
    possible = []
    if near.low <= BREAKS:
        if far.low < HOLDS:
            possible.append(HELD)
        if far.high >= HOLDS:
            possible.append(DEGRADED)
    if near.high > BREAKS:
        possible.append(BROKEN)
    if len(possible) == 1:
        return Judgement(possible[0], near, far)
    return Judgement(UNDECIDED, near, far, Saying(" or ".join(possible)))


def judgements(study: Study, protocol: Protocol) -> dict[str, Judgement]:
    """Every encoding's category under one protocol."""
    near, longest = near_length(study), study.longest
    if near is None:
        reason = Saying("none_longer", {"length": study.train_length})
        return {name: Judgement(UNMEASURED, reason=reason) for name in study.encodings}
    noise = study_noise(study, protocol)
    found = {}
    for name in study.encodings:
        rises = [study.rise(protocol, name, length) for length in (near, longest)]
        judged = [interval(rise, noise) for rise in rises if rise and rise.freedom]
        found[name] = judge(*judged) if len(judged) == 2 else _not_judged(study, name)
    return found


def study_noise(study: Study, protocol: Protocol) -> Noise:
    """How much seeds differ in this study."""
    names, train = study.encodings, study.train_length
    past = [length for length in study.lengths if length > train]
    at_train = [study.sample(protocol, name, train) for name in names]
    rises = [study.rise(protocol, name, length) for name in names for length in past]
    return fit_noise(filter(None, at_train), filter(None, rises))


def ranking(study: Study, length: int) -> Ranking | None:
    """Who is best at `length`; None unless two encodings have two seeds in common there."""
    samples = {name: study.sample("targets", name, length) for name in study.encodings}
    means = {name: one.mean for name, one in samples.items() if one and one.freedom}
    if len(means) < 2:
        return None
    best = min(means, key=means.__getitem__)
    behind = gaps(study, best, length)
    least = gaps(study, best, length, shown)
    unranked = tuple(name for name in study.encodings if name not in behind and name != best)
    return Ranking(length, best, behind, least, unranked) if behind else None


def gaps(
    study: Study,
    reference: str,
    length: int,
    told: Callable[[Sample, Noise, float], T] = interval,
) -> dict[str, T]:
    """loss - loss(reference) at `length`, paired by seed, for every other encoding.

    `told` says what of it, at a level: 1 - 0.05 / comparisons (Bonferroni), so that all of them
    hold together at 95% where the reference was not chosen by these losses.
    """
    noise = study_noise(study, "targets")
    others = [name for name in study.encodings if name != reference]
    samples = {name: study.gap("targets", name, reference, length) for name in others}
    usable = {name: sample for name, sample in samples.items() if sample and sample.freedom}
    level = 1 - (1 - LEVEL) / max(len(usable), 1)
    return {name: told(sample, noise, level) for name, sample in usable.items()}


def _not_judged(study: Study, name: str) -> Judgement:
    diverged = study.diverged(name)
    if diverged:
        runs = {"runs": len(diverged), "total": len(study.seeds(name))}
        return Judgement(DIVERGED, reason=Saying("not_finite", runs))
    missing = {length: why for one in study.of(name) for length, why in one.missing.items()}
    if missing:
        length = max(missing)
        found = {"length": length, "why": missing[length]}
        return Judgement(UNMEASURED, reason=Saying("no_loss", found))
    one = len(study.seeds(name)) == 1
    return Judgement(UNMEASURED, reason=Saying("one_finished" if one else "loss_missing"))
