"""What the numbers of a report allow to say: who is best, and who beats a sliding window.

Decided from fixed targets at the longest length, span by span; where an interval holds zero, two
losses are told to be alike. Passkeys and short text are told beside.
"""

import math
from typing import Any

from posenc.extend.sentences import losses_at, sentences
from posenc.extend.summary import against
from posenc.extend.words import TEXTS
from posenc.words import Words

Data = dict[str, Any]


def verdict(data: Data) -> Data:
    """best, ties and behind (losses minus the best's); better, worse and alike (sliding windows);
    and the sentences that say so, the first of which is the headline.
    """
    longest = str(max(data["to"]))
    losses = losses_at(data, longest)
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
    return decided | {"sentences": sentences(data, decided, Words("en", TEXTS))}


def _side(gap: Data) -> str:
    return "better" if gap["high"] < 0 else "worse" if gap["low"] > 0 else "alike"


def _size(loss: float | None) -> float:
    return math.inf if loss is None else loss
