"""The verdict in plain sentences, and the numbers as people read them."""

from collections.abc import Sequence

from posenc.lab.aggregate import Study
from posenc.lab.intervals import Interval
from posenc.lab.verdict import (
    BROKEN,
    DEGRADED,
    DIVERGED,
    HELD,
    UNDECIDED,
    UNMEASURED,
    Ranking,
    Verdict,
)
from posenc.report.numbers import listed, number, signed

PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
MOST_NAMES = 4


def half_width(interval: Interval, digits: int = 2) -> str:
    """`± 0.03`; an error that would round to nothing is shown as `< 0.01`."""
    least = 10.0**-digits
    small = 0 < interval.half < least / 2
    return f"{PLUS_MINUS}{'<' if small else ''}{least if small else interval.half:.{digits}f}"


def rising(interval: Interval) -> str:
    """`+0.29 (0.21 to 0.37)`."""
    return f"{signed(interval.mean)} ({ends(interval)})"


def ends(interval: Interval) -> str:
    """`0.21 to 0.37`; an end that would round to zero keeps another digit, for its sign matters."""
    low, high = interval.low, interval.high
    digits = 3 if min(abs(low), abs(high)) < 0.005 else 2
    return f"{number(low, digits)} to {number(high, digits)}"


def do(verb: str, names: Sequence[str]) -> str:
    """`a holds`, `a and b hold`; more names than a headline can bear are counted."""
    if len(names) > MOST_NAMES:
        return f"{len(names)} encodings {verb.removesuffix('s')}"
    return f"{listed(names)} {verb if len(names) == 1 else verb.removesuffix('s')}"


def headline(study: Study | None, verdict: Verdict | None) -> str:
    """The answer in one sentence."""
    if study is None or verdict is None or not study.measured:
        return "No run has finished yet"
    groups: dict[str, list[str]] = {}
    for name, judgement in verdict.judgements.items():
        groups.setdefault(judgement.category, []).append(study.label(name))
    if set(groups) == {UNMEASURED}:
        if _one_seed(study):
            return "One seed each: numbers, but no ranking"
        return "Nothing can be judged from these runs yet"
    parts = []
    if HELD in groups:
        times = f"{study.longest / study.train_length:g} times the train length"
        parts.append(f"{do('holds', groups[HELD])} to {times}")
    parts += [do(verb, groups[verb]) for verb in (DEGRADED, BROKEN) if verb in groups]
    if DIVERGED in groups:
        parts.append(f"{listed(groups[DIVERGED])} diverged")
    if UNDECIDED in groups:
        parts.append(f"{_are(groups[UNDECIDED])} undecided")
    return "; ".join(parts)


def sentences(study: Study, verdict: Verdict) -> list[str]:
    """What can be said beyond the headline, most important first."""
    if not study.measured:
        return []
    if not verdict.rankings:
        return [_no_ranking(study), *_judgements(study, verdict)]
    said = [_ranked(study, ranking) for ranking in verdict.rankings.values()]
    said += _against_none(study, verdict)
    said += _judgements(study, verdict)
    return [*said, *_survivors(study), *_windows(study, verdict)]


def _one_seed(study: Study) -> bool:
    return all(len(study.seeds(name)) == 1 for name in study.encodings)


def _no_ranking(study: Study) -> str:
    if len(study.encodings) < 2:
        return "Only one encoding has finished, so there is nothing to compare it with."
    if _one_seed(study):
        return (
            "With one seed nobody can tell a better encoding from a luckier run, so nothing is "
            "ranked and no encoding is called good or bad. Repeat with at least two seeds."
        )
    return (
        "No two encodings have two finished seeds in common, so nothing is ranked. Repeat the "
        "command: it goes on from what is done."
    )


def _ranked(study: Study, ranking: Ranking) -> str:
    where = f"At {ranking.length}"
    if ranking.length == study.train_length:
        where += ", the train length,"
    best, ties = study.label(ranking.best), [study.label(name) for name in ranking.ties]
    if not ranking.worse:
        return f"{where} {listed([best, *ties])} cannot be told apart; {best} has the lowest mean."
    nearest = min(ranking.worse, key=lambda name: ranking.behind[name].mean)
    gap = ranking.behind[nearest]
    rest = f"{study.label(nearest)} is behind by {number(gap.mean)} ({ends(gap)})"
    if len(ranking.worse) > 1:
        rest += f", the other{'s' * (len(ranking.worse) > 2)} by more"
    if not ties:
        return f"{where} {best} is best: {rest}."
    return (
        f"{where} {best} has the lowest mean, but {listed(ties)} cannot be told apart from it; "
        f"{rest}."
    )


def _against_none(study: Study, verdict: Verdict) -> list[str]:
    """Who is no better than no position encoding at the train length, or worse at the longest."""
    train, longest = study.train_length, study.longest
    at_train, at_longest = verdict.against_none[train], verdict.against_none[longest]
    said = []
    idle = [study.label(name) for name, gap in at_train.items() if gap.high >= 0]
    if idle:
        it, its = ("it", "its verdict says") if len(idle) == 1 else ("they", "their verdicts say")
        said.append(
            f"At {train}, the train length, {_are(idle)} not measurably better than no position "
            f"encoding: within this budget {it} hardly learned to use position, so {its} little."
        )
    worse = [study.label(name) for name, gap in at_longest.items() if gap.low > 0]
    if worse and longest > train:
        said.append(f"At {longest} {_are(worse)} worse than no position encoding at all.")
    return said


def _are(names: Sequence[str]) -> str:
    return f"{listed(names)} {'is' if len(names) == 1 else 'are'}"


def _judgements(study: Study, verdict: Verdict) -> list[str]:
    said = []
    for name, judgement in verdict.judgements.items():
        label = study.label(name)
        if judgement.category == HELD and judgement.far and judgement.far.high < 0:
            said.append(f"{label} gains from longer text: {rising(judgement.far)} nats per byte.")
        elif judgement.category == UNDECIDED:
            said.append(f"{label} is undecided: {judgement.reason}; more seeds would tell.")
        elif judgement.category in (DIVERGED, UNMEASURED) and not _one_seed(study):
            said.append(f"{label} is not judged: {judgement.reason}.")
    return said


def _survivors(study: Study) -> list[str]:
    """Encodings whose numbers leave out runs that failed."""
    said = []
    for name in study.encodings:
        failed = sum(r.config.encoding == name and r.state == "failed" for r in study.unused)
        if failed:
            total = failed + len(study.seeds(name))
            said.append(
                f"{failed} of {total} runs of {study.label(name)} failed; its numbers are those of "
                "the others, and may flatter it."
            )
    return said


def _windows(study: Study, verdict: Verdict) -> list[str]:
    """Where the other protocol would have said something else."""
    would = {
        HELD: "would hold",
        DEGRADED: "would degrade",
        BROKEN: "would break",
        UNDECIDED: "would be undecided",
    }
    if not any(one.category in would for one in verdict.judgements.values()):
        return []
    changed: dict[str, list[str]] = {}
    for name, ours in verdict.judgements.items():
        other = verdict.windows[name].category
        if other != ours.category and {other, ours.category} <= set(would):
            changed.setdefault(would[other], []).append(study.label(name))
    if not changed:
        return ["Judged on whole windows instead of fixed targets, every encoding fares the same."]
    differences = listed([f"{listed(names)} {outcome}" for outcome, names in changed.items()])
    return [
        f"Judged on whole windows instead of fixed targets, {differences}: a longer window still "
        "begins with bytes at trained positions, and has relatively fewer bytes with little "
        "before them."
    ]
