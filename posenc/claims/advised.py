"""Advice in plain sentences, and as JSON."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from posenc.claims.advice import LOSES, Answer, Row
from posenc.claims.facts import Facts
from posenc.lab.config import OWN_SIZES
from posenc.lab.intervals import LEVEL, Interval
from posenc.lab.verdict import HOLDS
from posenc.report.numbers import number, signed
from posenc.words import Words

# Of its ratio, by which a measured one counts as the one that was asked for.
NEAR = 1e-2
# So many are named of those that a row is of.
CLAIMS = 3


def told(answer: Answer, say: Words) -> Iterator[str]:
    """What was asked, on what the answer rests, who is spoken for and against, what is unknown."""
    asked = answer.question
    yield say("asked", task=_task(answer, say), times=f"{asked.times:g}", **_lengths(answer))
    if not answer.rows:
        yield say("no_row", task=_task(answer, say))
    else:
        if sizes := _sizes(answer):
            yield say("small_models", **sizes)
        yield say("bounds_of_advice", holds=HOLDS, loses=LOSES, level=LEVEL)
    shown: set[str] = set()
    for speaks, rows in groupby(answer.rows, lambda row: row.speaks):
        yield f"\n{say(f'speaks_{speaks}')}"
        for row in rows:
            yield f"  {_row(answer, row, say)}"
            if row.arm.encoding not in shown:
                yield from (f"    {fact}" for fact in _facts(answer, row.arm.encoding, say))
            shown.add(row.arm.encoding)
    yield ""
    yield from _unknown(answer, say)


def as_json(answer: Answer) -> dict[str, Any]:
    """Everything that was found, in numbers."""
    asked = answer.question
    return {
        "question": {
            "train": asked.train,
            "target": asked.target,
            "times": asked.times,
            "task": asked.task,
            "tasks": list(answer.tasks),
            "cache": asked.cache,
        },
        "bounds": {"loss": HOLDS, "exact": LOSES, "level": LEVEL},
        "rows": [_as_json(answer, row) for row in answer.rows],
        "not_known": list(answer.unknown),
        "facts": {name: vars(one) for name, one in answer.facts.items()},
    }


def _as_json(answer: Answer, row: Row) -> dict[str, Any]:
    config = row.arm.config
    sizes = () if config.get("model") else OWN_SIZES
    return {
        "encoding": row.arm.encoding,
        "label": row.label,
        "weights_of": row.arm.base and row.arm.base.encoding,
        "task": row.arm.task,
        "speaks": row.speaks,
        "metric": row.metric,
        "train": row.arm.train,
        "length": row.length,
        "times": row.times,
        "as_asked": _as_asked(answer, row),
        "found": _ends(row.found),
        "change": _ends(row.change),
        "seeds": len(row.arm.values(row.metric, row.length).by_seed),
        "claims": list(row.arm.claims),
        "size": {key: config.get(key) for key in (*sizes, "steps")},
    }


def _row(answer: Answer, row: Row, say: Words) -> str:
    name = row.label
    if row.arm.base is not None:
        key, steps = ("row_tuned" if row.arm.trained else "row_on"), row.arm.config.get("steps")
        name = say(key, encoding=name, base=row.arm.base.encoding, steps=f"{steps}")
    place = {"length": str(row.length), "times": f"{row.times:g}"}
    told = "measured_there" if _as_asked(answer, row) else "nearest"
    if row.speaks == "unlearned":
        told = "measured_trained"
    where = say(told, asked=f"{answer.question.times:g}", **place)
    found = _interval(row.found, say) if row.found else say("untold")
    task = row.arm.task
    line = say("row", encoding=name, task=task, where=where, metric=say(row.metric), found=found)
    if row.change is not None and row.speaks != "unlearned":
        ends = {key: signed(value, 3) for key, value in (_ends(row.change) or {}).items()}
        line = say("row_changed", row=line, change=say("interval", **ends))
    names, more = row.arm.claims[:CLAIMS], len(row.arm.claims) - CLAIMS
    key = "row_claims" if more <= 0 else "row_more_claims"
    return say(key, row=line, names=names if more <= 0 else ", ".join(names), more=more)


def _facts(answer: Answer, encoding: str, say: Words) -> Iterator[str]:
    known = answer.facts.get(encoding)
    if known is None:
        return
    if known.refuses:
        yield say("fact_refuses", error=known.refuses, **_lengths(answer))
    if known.causal_only:
        yield say("fact_causal")
    if answer.question.cache:
        yield _cache(known, say)


def _cache(known: Facts, say: Words) -> str:
    if known.cache is None:
        return say("fact_no_cache")
    return say("fact_cache_length" if known.length_dependent else f"fact_cache_{known.cache}")


def _unknown(answer: Answer, say: Words) -> Iterator[str]:
    facts = {name: answer.facts[name] for name in answer.unknown if name in answer.facts}
    if answer.unknown:
        yield say("not_known", names=answer.unknown)
    refusing = [name for name, one in facts.items() if one.refuses]
    if refusing:
        yield say("of_these_refuse", names=refusing, **_lengths(answer))
    without = [name for name, one in facts.items() if one.cache is None]
    if without and answer.question.cache:
        yield say("of_these_no_cache", names=without)


def _task(answer: Answer, say: Words) -> str:
    key = f"kind_{answer.question.task}"
    return say(key) if key in say.texts else answer.question.task


def _sizes(answer: Answer) -> dict[str, str]:
    """From the least to the most of each, as the rows have it; those of other models name them."""
    arms = [row.arm for row in answer.rows if not row.arm.config.get("model")]
    if not arms:
        return {}
    found = {
        "dims": {arm.config["dim"] for arm in arms},
        "depths": {arm.config["depth"] for arm in arms},
        "trains": {arm.train for arm in arms},
    }
    dash = "\N{EN DASH}"
    return {key: dash.join(map(str, sorted({min(own), max(own)}))) for key, own in found.items()}


def _lengths(answer: Answer) -> dict[str, str]:
    return {"train": str(answer.question.train), "target": str(answer.question.target)}


def _as_asked(answer: Answer, row: Row) -> bool:
    return abs(row.times / answer.question.times - 1) < NEAR


def _interval(found: Interval, say: Words) -> str:
    return say("interval", **{k: number(v, 3) for k, v in (_ends(found) or {}).items()})


def _ends(found: Interval | None) -> dict[str, float] | None:
    return {"mean": found.mean, "low": found.low, "high": found.high} if found else None
