"""What the numbers of a report allow to say: who is best, and who beats a sliding window.

Decided from fixed targets at the longest length, span by span; where an interval holds zero, two
losses are told to be alike. Passkeys and short text are told beside.
"""

import math
from typing import Any

from posenc.extend.cells import OWN
from posenc.extend.summary import against
from posenc.report.numbers import count, listed, number, signed

Data = dict[str, Any]


def verdict(data: Data) -> Data:
    """best, ties and behind (losses minus the best's); better, worse and alike (sliding windows);
    and the sentences that say so, the first of which is the headline.
    """
    longest = str(max(data["to"]))
    losses = {
        name: one["targets"][longest]
        for name, one in data["methods"].items()
        if longest in one["targets"]
    }
    ranked = sorted(losses, key=lambda name: _size(losses[name]["mean"]))
    decided: Data = {"best": None, "ties": [], "behind": {}, "better": [], "worse": [], "alike": []}
    if ranked and losses[ranked[0]]["mean"] is not None:
        best = decided["best"] = ranked[0]
        behind = against(losses[best], {name: losses[name] for name in ranked[1:]})
        decided["behind"] = behind
        decided["ties"] = [name for name, x in behind.items() if x is None or x["low"] <= 0]
    for name in ranked:
        gap = losses[name].get("behind_sliding")
        if gap is not None:
            decided[_side(gap)].append(name)
    lines = [*_best(data, decided, losses), *_sliding(data, decided, losses), *_passkeys(data)]
    lines += _short(data)
    return decided | {"sentences": lines or ["Nothing is measured yet"]}


def _side(gap: Data) -> str:
    return "better" if gap["high"] < 0 else "worse" if gap["low"] > 0 else "alike"


def _best(data: Data, decided: Data, losses: Data) -> list[str]:
    best, ties = decided["best"], decided["ties"]
    if best is None:
        return []
    longest, spans = max(data["to"]), len(losses[best]["spans"])
    loss = number(losses[best]["mean"], 3)
    if len(losses) == 1:
        return [f"At {longest:,} tokens {best} has a loss of {loss}"]
    lowest = f"{best} has the lowest loss at {longest:,} tokens, {loss}"
    if spans < 2:
        return [lowest, "One span of text was read: nothing says how much of this is luck."]
    if len(ties) == len(losses) - 1:
        few = f"The lowest loss is that of {best}, {loss}, and {count(spans, 'span')} cannot tell"
        return [f"At {longest:,} tokens no method is better than another", f"{few} it from others."]
    if ties:
        return [lowest, f"{count(spans, 'span')} cannot tell {listed(ties)} from it: a tie."]
    return [f"{lowest}, and every other method is behind it"]


def _sliding(data: Data, decided: Data, losses: Data) -> list[str]:
    longest = str(max(data["to"]))
    base = data["sliding"]["targets"].get(longest)
    if base is None or not losses:
        return []
    trained = f"{data['trained']:,}"
    said = [
        f"The model as it is, in a sliding window of {trained} tokens, has "
        f"{number(base['mean'], 3)}: what any method must beat."
    ]
    words = {"better": "Better than that", "worse": "Worse", "alike": "Not to be told from it"}
    parts = [f"{words[side]}: {listed(decided[side])}." for side in words if decided[side]]
    return [*said, " ".join(parts)] if parts else said


def _passkeys(data: Data) -> list[str]:
    longest = str(max(data["to"]))
    tried = {
        name: one["passkeys"][longest]
        for name, one in data["methods"].items()
        if longest in one["passkeys"]
    }
    if not tried:
        return []
    shares = [f"{name} {x['hits']} of {x['tries']}" for name, x in tried.items() if x["hits"]]
    without = [name for name, x in tried.items() if not x["hits"]]
    said = [f"Passkeys found at {int(longest):,} tokens: {', '.join(shares) or 'none'}."]
    if shares and without:
        said = [f"{said[0][:-1]}; not one by {listed(without)}."]
    blind = [x for one in data["methods"].values() for x in one["control"].values()]
    if blind:
        hits, tries = sum(x["hits"] for x in blind), sum(x["tries"] for x in blind)
        said.append(f"Where none was hidden, {hits} of {tries} were guessed.")
    return said


def _short(data: Data) -> list[str]:
    changes = {
        name: one["short"].get("change")
        for name, one in data["methods"].items()
        if name != OWN and one["short"] is not None
    }
    harmed = {name: x for name, x in changes.items() if x is not None and x["low"] > 0}
    if not harmed:
        return []
    said = ", ".join(f"{name} {signed(x['mean'], 3)}" for name, x in harmed.items())
    return [f"On texts of {data['short']:,} tokens, which it could read before, they cost: {said}."]


def _size(loss: float | None) -> float:
    return math.inf if loss is None else loss
