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
from posenc.report.numbers import number, signed
from posenc.words import Words

PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
MOST_NAMES = 4


def half_width(interval: Interval, digits: int = 2) -> str:
    """`± 0.03`; an error that would round to nothing is shown as `< 0.01`."""
    least = 10.0**-digits
    small = 0 < interval.half < least / 2
    return f"{PLUS_MINUS}{'<' if small else ''}{least if small else interval.half:.{digits}f}"


def ends(interval: Interval, say: Words) -> str:
    """`0.21 to 0.37`; an end that would round to zero keeps another digit, for its sign matters."""
    low, high = interval.low, interval.high
    digits = 3 if min(abs(low), abs(high)) < 0.005 else 2
    return say("range", low=number(low, digits), high=number(high, digits))


def headline(study: Study | None, verdict: Verdict | None, say: Words) -> str:
    """The answer in one sentence."""
    if study is None or verdict is None or not study.measured:
        return say("none_finished")
    groups: dict[str, list[str]] = {}
    for name, judgement in verdict.judgements.items():
        groups.setdefault(judgement.category, []).append(study.label(name))
    if set(groups) == {UNMEASURED}:
        return say("only_numbers" if _one_seed(study) else "nothing_judged")
    texts = {
        HELD: "all_hold",
        DEGRADED: "all_degrade",
        BROKEN: "all_break",
        DIVERGED: "all_diverged",
        UNDECIDED: "all_undecided",
    }
    times = study.longest / study.train_length
    return say("semicolon").join(
        say(text, who=_who(groups[category], say), names=groups[category], times=times)
        for category, text in texts.items()
        if category in groups
    )


def _who(names: Sequence[str], say: Words) -> str:
    """More names than a headline can bear are counted."""
    return say("many", count=len(names)) if len(names) > MOST_NAMES else say.listed(names)


def sentences(study: Study, verdict: Verdict, say: Words) -> list[str]:
    """What can be said beyond the headline, most important first."""
    if not study.measured:
        return []
    if not verdict.rankings:
        return [_no_ranking(study, say), *_judgements(study, verdict, say)]
    said = [_ranked(study, ranking, say) for ranking in verdict.rankings.values()]
    said += _against_none(study, verdict, say)
    said += _judgements(study, verdict, say)
    return [*said, *_survivors(study, say), *_windows(study, verdict, say)]


def _one_seed(study: Study) -> bool:
    return all(len(study.seeds(name)) == 1 for name in study.encodings)


def _no_ranking(study: Study, say: Words) -> str:
    if len(study.encodings) < 2:
        return say("alone")
    return say("one_seed" if _one_seed(study) else "no_pair")


def _ranked(study: Study, ranking: Ranking, say: Words) -> str:
    train = ranking.length == study.train_length
    where = say("at_train" if train else "at", length=ranking.length)
    best, ties = study.label(ranking.best), [study.label(name) for name in ranking.ties]
    power = say("power", gap=number(max(map(ranking.shown.__getitem__, ranking.ties), default=0.0)))
    if not ranking.worse:
        tied = say("tied", where=where, names=[best, *ties], best=best)
        return say("space").join((tied, power))
    nearest = min(ranking.worse, key=lambda name: ranking.behind[name].mean)
    gap, others = ranking.behind[nearest], len(ranking.worse) - 1
    rest = say(
        "behind_and_more" if others else "behind",
        name=study.label(nearest),
        gap=number(gap.mean),
        ends=ends(gap, say),
        others=others,
    )
    if not ties:
        return say("is_best", where=where, best=best, rest=rest)
    lowest = say("is_lowest", where=where, best=best, ties=ties, rest=rest)
    return say("space").join((lowest, power))


def _against_none(study: Study, verdict: Verdict, say: Words) -> list[str]:
    """Who is no better than no position encoding at the train length, or worse at the longest."""
    train, longest = study.train_length, study.longest
    at_train, at_longest = verdict.against_none[train], verdict.against_none[longest]
    said = []
    idle = [study.label(name) for name, gap in at_train.items() if gap.high >= 0]
    if idle:
        said.append(say("idle", length=train, names=idle))
    worse = [study.label(name) for name, gap in at_longest.items() if gap.low > 0]
    if worse and longest > train:
        said.append(say("worse_than_none", length=longest, names=worse))
    return said


def _judgements(study: Study, verdict: Verdict, say: Words) -> list[str]:
    said = []
    for name, judgement in verdict.judgements.items():
        label, category, far = study.label(name), judgement.category, judgement.far
        if category == HELD and far and far.high < 0:
            said.append(say("gains", name=label, change=signed(far.mean), ends=ends(far, say)))
        elif category == UNDECIDED:
            said.append(say("is_undecided", name=label, reason=judgement.reason))
        elif category in (DIVERGED, UNMEASURED) and not _one_seed(study):
            said.append(say("is_not_judged", name=label, reason=judgement.reason))
    return said


def _survivors(study: Study, say: Words) -> list[str]:
    """Encodings whose numbers leave out runs that failed."""
    said = []
    for name in study.encodings:
        failed = sum(r.config.encoding == name and r.state == "failed" for r in study.unused)
        if failed:
            total = failed + len(study.seeds(name))
            said.append(say("survivors", failed=failed, total=total, name=study.label(name)))
    return said


def _windows(study: Study, verdict: Verdict, say: Words) -> list[str]:
    """Where the other protocol would have said something else."""
    decided = (HELD, DEGRADED, BROKEN, UNDECIDED)
    if not any(one.category in decided for one in verdict.judgements.values()):
        return []
    changed: dict[str, list[str]] = {}
    for name, ours in verdict.judgements.items():
        other = verdict.windows[name].category
        if other != ours.category and {other, ours.category} <= set(decided):
            changed.setdefault(other, []).append(study.label(name))
    if not changed:
        return [say("windows_same")]
    differences = [say(f"would {category}", names=names) for category, names in changed.items()]
    return [say("windows_differ", differences=say.listed(differences))]
