"""What inspect.json says, in sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

from posenc.inspection.heads import DISTANCE, FIRST, NEXT, PREVIOUS, REACH, SPLIT, STAYS, Measure
from posenc.inspection.shifts import ROUNDING
from posenc.inspection.words.sentences import PHRASES
from posenc.report.known import known
from posenc.words import Words

Layers = Sequence[Mapping[str, Any]]


def sentences(data: Mapping[str, Any], say: Words) -> list[str]:
    """The summary of a page and of the command."""
    layers = data["layers"]
    return [
        *_of_table(data["table"], say),
        *_of_scores(layers, say),
        *_of_attention(layers, say),
        *_of_pairs(layers, data["model"]["trained_length"], say),
        *_of_shifts(**data["shifts"], say=say),
        *(known(note, PHRASES, say) for note in data["notes"]),
    ]


def state(name: str, runs: Sequence[Sequence[int]], say: Words) -> str:
    """How rows of the learned table look."""
    return say(f"state_{name}", rows=ranges(runs, say))


def ranges(runs: Sequence[Sequence[int]], say: Words) -> str:
    """`rows 0 to 1 and 7` of first and last rows; many runs are counted."""
    total = sum(last - first + 1 for first, last in runs)
    if len(runs) > 4:
        return say("rows_in_places", rows=total, places=len(runs))
    shown = [
        f"{first:,}" if first == last else say("range", low=f"{first:,}", high=f"{last:,}")
        for first, last in runs
    ]
    return say("one_row" if total == 1 else "rows", rows=shown)


def percent(share: float) -> str:
    """A share of 1 in percent, small ones with a digit behind the point."""
    shown = 100 * share
    return f"{shown:.0f}%" if shown >= 9.95 or shown == 0 else f"{shown:.2g}%"


def _of_table(table: Mapping[str, Any] | None, say: Words) -> list[str]:
    """Which rows of the learned table look trained."""
    if table is None:
        return []
    sizes = {"rows": table["rows"], "columns": table["columns"]}
    others = [(name, runs) for name, runs in table["states"].items() if name != "trained"]
    if not others:
        return [say("all_trained", **sizes)]
    told = say("semicolon").join(state(name, runs, say) for name, runs in others)
    return [say("not_all_trained", **sizes, states=told)]


def _of_scores(layers: Layers, say: Words) -> list[str]:
    told = []
    distance, place, _ = (measure.mean(layers) for measure in STAYS)
    if distance is not None and place is not None:
        shares = {"share": distance + place, "distance": distance, "place": place}
        most = _most(STAYS[0], layers, say, "most_by_distance")
        told.append(say("stays", **_percents(shares), most=most))
    content, alone, both = (measure.mean(layers) for measure in SPLIT)
    if content is not None and alone is not None and both is not None:
        shares = {"content": content, "distance": alone, "both": both}
        told.append(say("split", **_percents(shares)))
    return told


def _of_attention(layers: Layers, say: Words) -> list[str]:
    means = [measure.mean(layers) for measure in (DISTANCE, REACH, FIRST, PREVIOUS, NEXT)]
    distance, reach, first, previous, following = means
    if distance is None or reach is None or previous is None or following is None:
        return []
    told = [say("attends", distance=distance, reach=reach)]
    if first is not None:
        told.append(say("first", share=percent(first), most=_most(FIRST, layers, say)))
    told.append(say("previous", share=percent(previous), most=_most(PREVIOUS, layers, say)))
    if following:
        told.append(say("next", share=percent(following), most=_most(NEXT, layers, say)))
    return told


def _percents(shares: Mapping[str, float]) -> dict[str, str]:
    return {name: percent(share) for name, share in shares.items()}


def _most(measure: Measure, layers: Layers, say: Words, key: str = "most") -> str:
    found = measure.largest(layers)
    if found is None:
        return ""
    share, layer, head = found
    return say(key, layer=layer, head=head, share=percent(share))


def _of_pairs(layers: Layers, trained: int | None, say: Words) -> list[str]:
    """How much of what pairs can add lies in those that do not turn once in the trained length."""
    turning = [layer["pairs"] for layer in layers if layer["pairs"]]
    if not turning or trained is None:
        return []
    slow = [[w is None or w > trained for w in pairs["wavelength"]] for pairs in turning]
    kept = sum(
        x
        for pairs, late in zip(turning, slow, strict=True)
        for x, is_slow in zip(pairs["product"], late, strict=True)
        if is_slow
    )
    whole = sum(x for pairs in turning for x in pairs["product"])
    if not whole or len({sum(late) for late in slow}) > 1:
        return []
    counts = {"slow": sum(slow[0]), "pairs": len(slow[0])}
    return [say("slow_pairs", **counts, trained=trained, share=percent(kept / whole))]


def _of_shifts(compared: str, changes: Sequence[Mapping[str, Any]], say: Words) -> list[str]:
    """What a shift of all positions changes."""
    if not changes:
        return []
    worst = max(changes, key=lambda one: one["relative"])
    if worst["relative"] < ROUNDING:
        farthest, largest = changes[-1]["shift"], worst["largest"]
        return [say("only_rounding", shift=farthest, compared=say(compared), largest=largest)]
    return [
        say(
            "shift_changes",
            shift=one["shift"],
            compared=say(compared),
            share=percent(one["relative"]),
            largest=one["largest"],
        )
        for one in (changes[0], changes[-1])[: len(changes)]
    ]
