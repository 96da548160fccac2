"""What inspect.json says, in sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

from posenc.inspection.heads import DISTANCE, FIRST, NEXT, PREVIOUS, REACH, SPLIT, STAYS, Measure
from posenc.inspection.shifts import ROUNDING
from posenc.report.numbers import count, listed

STATES = {
    "initial": "look as they were drawn at initialisation",
    "unrelated": "are like no neighbour, and nothing tells whether they were trained",
    "zero": "are zero",
}


def sentences(data: Mapping[str, Any]) -> list[str]:
    """The summary of a page and of the command."""
    layers = data["layers"]
    every = [
        *of_table(data["table"]),
        *_of_scores(layers),
        *_of_attention(layers),
        *_of_pairs(layers, data["model"]["trained_length"]),
        *of_shifts(**data["shifts"]),
    ]
    return [*every, *data["notes"]]


def of_table(table: Mapping[str, Any] | None) -> list[str]:
    """Which rows of the learned table look trained."""
    if table is None:
        return []
    size = f"The learned table has {table['rows']:,} rows of {table['columns']:,} numbers"
    told = [
        f"{ranges(runs)} {STATES[state]}"
        for state, runs in table["states"].items()
        if state in STATES
    ]
    return [f"{size}; {'; '.join(told)}." if told else f"{size}, and all look trained."]


def ranges(runs: Sequence[Sequence[int]]) -> str:
    """`rows 0 to 1 and 7` of first and last rows; many runs are counted."""
    total = sum(last - first + 1 for first, last in runs)
    if len(runs) > 4:
        return f"{total:,} rows in {len(runs)} places"
    shown = [f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in runs]
    return f"row{'' if total == 1 else 's'} {listed(shown)}"


def percent(share: float) -> str:
    """A share of 1 in percent, small ones with a digit behind the point."""
    shown = 100 * share
    return f"{shown:.0f}%" if shown >= 9.95 or shown == 0 else f"{shown:.2g}%"


def _of_scores(layers: Sequence[Mapping[str, Any]]) -> list[str]:
    told = []
    distance, place, _ = (measure.mean(layers) for measure in STAYS)
    if distance is not None and place is not None:
        told.append(
            f"Whatever the text, position explains {percent(distance + place)} of how scores vary "
            f"({percent(distance)} by distance alone, {percent(place)} by place), "
            f"mean over heads{_most(STAYS[0], layers, 'distance')}."
        )
    content, alone, both = (measure.mean(layers) for measure in SPLIT)
    if content is not None and alone is not None and both is not None:
        told.append(
            f"With every pair of tokens at every distance, content explains {percent(content)}, "
            f"distance {percent(alone)}, and both together {percent(both)}."
        )
    return told


def _of_attention(layers: Sequence[Mapping[str, Any]]) -> list[str]:
    means = [measure.mean(layers) for measure in (DISTANCE, REACH, FIRST, PREVIOUS, NEXT)]
    distance, reach, first, previous, following = means
    if distance is None or reach is None or previous is None or following is None:
        return []
    told = [
        f"Heads attend {distance:.1f} tokens away on average, and 90% of a head's attention lies "
        f"within {reach:.0f} tokens (mean over heads)."
    ]
    if first is not None:
        most = _most(FIRST, layers)
        told.append(f"The first 4 tokens get {percent(first)} of the attention{most}.")
    told.append(f"The token before gets {percent(previous)}{_most(PREVIOUS, layers)}.")
    if following:
        told.append(f"The token behind gets {percent(following)}{_most(NEXT, layers)}.")
    return told


def _most(measure: Measure, layers: Sequence[Mapping[str, Any]], what: str = "") -> str:
    found = measure.largest(layers)
    if found is None:
        return ""
    share, layer, head = found
    return f"; most {f'by {what} ' if what else ''}in layer {layer}, head {head}: {percent(share)}"


def _of_pairs(layers: Sequence[Mapping[str, Any]], trained: int | None) -> list[str]:
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
    return [
        f"{count(sum(slow[0]), 'rotary pair')} of {len(slow[0])} turn less than once in the "
        f"trained length ({trained:,}), and hold {percent(kept / whole)} of |q| |k|."
    ]


def of_shifts(compared: str, changes: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a shift of all positions changes."""
    if not changes:
        return []
    worst = max(changes, key=lambda one: one["relative"])
    if worst["relative"] < ROUNDING:
        farthest = changes[-1]["shift"]
        return [
            f"All positions shifted by up to {farthest:,} change the {compared} by rounding only: "
            f"{worst['largest']:.2g} at most."
        ]
    return [
        f"All positions shifted by {one['shift']:,} change the {compared} by "
        f"{percent(one['relative'])} of their spread, {one['largest']:.2g} at most."
        for one in (changes[0], changes[-1])[: len(changes)]
    ]
