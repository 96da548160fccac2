"""The verdict in plain sentences."""

import re
from typing import Any

from posenc.extend.cells import OWN
from posenc.report.numbers import number, signed
from posenc.words import Words

Data = dict[str, Any]
SLIDING = "sliding"
# How report.json calls a row that was trained on, as `cells.row_name` has it.
TUNED = re.compile(r"(\S+) \(tuned (\d+) steps?\)")


def sentences(data: Data, decided: Data, say: Words) -> list[str]:
    """What was decided and what was found beside; the first is the headline."""
    losses = losses_at(data, str(max(data["to"])))
    said = [*_best(data, decided, losses, say), *_sliding(data, decided, losses, say)]
    return [*said, *_passkeys(data, say), *_short(data, say)] or [say("nothing")]


def called(name: str, say: Words) -> str:
    """A row of report.json by the name that people read."""
    if tuned := TUNED.fullmatch(name):
        return say("tuned", method=tuned[1], steps=int(tuned[2]))
    return say("head_sliding") if name == SLIDING else name


def losses_at(data: Data, length: str) -> Data:
    """What each method lost on fixed targets at a length."""
    return {
        name: one["targets"][length]
        for name, one in data["methods"].items()
        if length in one["targets"]
    }


def _best(data: Data, decided: Data, losses: Data, say: Words) -> list[str]:
    best, ties = decided["best"], [called(name, say) for name in decided["ties"]]
    if best is None:
        return []
    longest, spans = max(data["to"]), len(losses[best]["spans"])
    named = {"best": called(best, say), "longest": longest, "loss": number(losses[best]["mean"], 3)}
    if len(losses) == 1:
        return [say("one_method", **named)]
    if spans < 2:
        return [say("lowest", **named), say("one_span")]
    if len(ties) == len(losses) - 1:
        return [say("none_better", longest=longest), say("few_spans", **named, spans=spans)]
    if ties:
        return [say("lowest", **named), say("ties", spans=spans, ties=ties)]
    return [say("all_behind", **named)]


def _sliding(data: Data, decided: Data, losses: Data, say: Words) -> list[str]:
    base = data["sliding"]["targets"].get(str(max(data["to"])))
    if base is None or not losses:
        return []
    said = [say("sliding", trained=data["trained"], loss=number(base["mean"], 3))]
    parts = [
        say(side, names=[called(name, say) for name in decided[side]])
        for side in ("better", "worse", "alike")
        if decided[side]
    ]
    return [*said, say("space").join(parts)] if parts else said


def _passkeys(data: Data, say: Words) -> list[str]:
    longest = max(data["to"])
    tried = {
        name: one["passkeys"][str(longest)]
        for name, one in data["methods"].items()
        if str(longest) in one["passkeys"]
    }
    if not tried:
        return []
    shares = [
        say("share_found", name=called(name, say), hits=x["hits"], tries=x["tries"])
        for name, x in tried.items()
        if x["hits"]
    ]
    without = [called(name, say) for name, x in tried.items() if not x["hits"]]
    text = "found_by_some" if shares and without else "found"
    found = say("comma").join(shares) or say("none_found")
    said = [say(text, longest=longest, shares=found, names=without)]
    blind = [x for one in data["methods"].values() for x in one["control"].values()]
    if blind:
        hits, tries = sum(x["hits"] for x in blind), sum(x["tries"] for x in blind)
        said.append(say("guessed", hits=hits, tries=tries))
    return said


def _short(data: Data, say: Words) -> list[str]:
    changes = {
        name: one["short"].get("change")
        for name, one in data["methods"].items()
        if name != OWN and one["short"] is not None
    }
    harmed = {name: x for name, x in changes.items() if x is not None and x["low"] > 0}
    if not harmed:
        return []
    costs = say("comma").join(
        f"{called(name, say)} {signed(x['mean'], 3)}" for name, x in harmed.items()
    )
    return [say("price", short=data["short"], costs=costs)]
