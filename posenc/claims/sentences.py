"""A claim and its result in plain sentences."""

from collections.abc import Iterator, Mapping
from typing import Any

from posenc.claims import family
from posenc.claims.claim import Claim
from posenc.claims.family import would_decide
from posenc.report.numbers import number, signed
from posenc.words import Words

OUTCOMES = ("holds", "fails", "undecided")


def told(claim: Claim, found: Mapping[str, Any] | None, say: Words) -> list[str]:
    """What it says, where, how it is run here, and what came out."""
    outcome = say(found["outcome"] if found else "not_run")
    lines = [
        say("heading", name=claim.name, outcome=outcome),
        claim.says[say.column],
        say("source_line", source=claim.source),
        say("differs_line", differs=claim.differs[say.column]),
    ]
    if found is None:
        command = f"posenc claims run {claim.name}"
        return [*lines, say("none_yet"), say("command_line", command=command)]
    lines += [f"  {line}" for line in all_expected(found, say)]
    arms = found["arms"].values()
    counts = {key: sum(arm[key] for arm in arms) for key in ("runs", "done", "failed")}
    lines.append(say("seeds", seconds=found["seconds"], **counts))
    if counts["failed"]:
        errors = "; ".join(dict.fromkeys(found["failed"].values()))
        lines.append(say("failed", failed=counts["failed"], errors=errors))
    return [*lines, say("command_line", command=found["command"])]


def all_expected(found: Mapping[str, Any], say: Words) -> list[str]:
    """Each expectation, what came out, and where that is undecided, what would decide it."""
    every = found["expectations"]
    return [_expected(one, len(every), say) for one in every]


def _expected(one: Mapping[str, Any], expectations: int, say: Words) -> str:
    what = cell(one["of"], say)
    if one["minus"] is not None:
        what = say("minus", of=what, minus=cell(one["minus"], say))
    bounds = say(_bounds(one), above=one["above"], below=one["below"])
    outcome = say(one["outcome"])
    if one["interval"] is None:
        saying = one["saying"]
        why = say(saying["key"], **saying["values"])
        return say("expected_unknown", outcome=outcome, what=what, bounds=bounds, reason=why)
    shown = signed if one["minus"] is not None else number
    ends = {key: shown(value, 3) for key, value in one["interval"].items()}
    told = say("expected", outcome=outcome, what=what, bounds=bounds, found=say("interval", **ends))
    if one["outcome"] != "undecided":
        return told
    seeds = would_decide(one, expectations)
    more = say("would_decide", seeds=seeds) if seeds else say("would_not_decide")
    return say("semicolon").join((told, more))


def cell(one: Mapping[str, Any], say: Words) -> str:
    metric, times = say(one["metric"]), one["times"]
    if times == 1:
        return say("cell_trained", metric=metric, arm=one["arm"])
    return say("cell", metric=metric, arm=one["arm"], times=f"{times:g}")


def summed_up(
    claims: Mapping[str, Claim], found: Mapping[str, Mapping[str, Any]], say: Words
) -> Iterator[str]:
    """A line for each claim, and how many of them hold."""
    counts = {o: sum(one["outcome"] == o for one in found.values()) for o in OUTCOMES}
    yield say("summary", claims=len(claims), known=len(found), **counts)
    agreed = [name for name in found if claims[name].agreed]
    holding = sum(found[name]["outcome"] == "holds" for name in agreed)
    yield say("agreed", agreed=len(agreed), holds=holding)
    yield from read_together(found, say)
    for name, one in found.items():
        yield ""
        yield say("heading", name=name, outcome=say(one["outcome"]))
        yield claims[name].says[say.column]
        yield from (f"  {line}" for line in all_expected(one, say))


def read_together(found: Mapping[str, Mapping[str, Any]], say: Words) -> Iterator[str]:
    """How many verdicts stand when all are looked at, and which do not."""
    if not found:
        return
    level = next(iter(found.values()))["level"]
    together = family.together(found)
    fallen = [name for name, p in together.items() if p > 1 - level]
    stand = len(together) - len(fallen)
    yield say("multiplicity", level=level, decided=len(together), stand=stand)
    if fallen:
        yield say("alone", names=fallen)


def _bounds(one: Mapping[str, Any]) -> str:
    if one["above"] is not None and one["below"] is not None:
        return "between"
    return "below" if one["above"] is None else "above"
