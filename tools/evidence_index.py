"""The first page of the evidence, every claim with its outcome, and the table by encoding."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from evidence_tables import cell, markdown, named
from evidence_texts import INDEX, OVERVIEW

from posenc.claims import Claim
from posenc.claims.evidence import evidence
from posenc.claims.sentences import OUTCOMES, read_together
from posenc.lab.arms import Arm, told_apart
from posenc.words import Words

Results = Mapping[str, dict[str, Any] | None]
TIMES = (1, 2, 4, 8)
TIMES_SIGN = "\N{MULTIPLICATION SIGN}"
CONTENTS = """
```{{toctree}}
:hidden:

{names}
```
"""


def index(known: Mapping[str, Claim], found: Results, say: Words) -> str:
    """How claims are judged, how many hold, and a line for each."""
    ran = {name: one for name, one in found.items() if one is not None}
    counts = {o: sum(one["outcome"] == o for one in ran.values()) for o in OUTCOMES}
    agreed = [name for name in ran if known[name].agreed]
    holding = sum(ran[name]["outcome"] == "holds" for name in agreed)
    told = say("summary", claims=len(known), known=len(ran), **counts)
    told = [told, say("agreed", agreed=len(agreed), holds=holding), *read_together(ran, say)]
    lines = []
    for name, claim in known.items():
        one = found[name]
        outcome = say(one["outcome"] if one else "not_run")
        link = f"[{claim.says[say.column]}]({name}.md)"
        lines.append([link, say("yes") if claim.agreed else "", outcome, claim.source])
    heads = [say("head_claim"), say("head_agreed"), say("outcome"), say("source")]
    contents = CONTENTS.format(names="\n".join(["overview", *known]))
    return f"{INDEX[say.language]}\n{say('space').join(told)}\n{markdown(heads, lines)}\n{contents}"


def overview(known: Mapping[str, Claim], found: Results, say: Words) -> str:
    """A table for each task, of everything that was measured."""
    every = evidence((known[name], one) for name, one in found.items() if one is not None)
    every = [arm for arm in every if arm.metric is not None]
    every.sort(key=lambda arm: (arm.kind != "language", arm.task))
    by_task = groupby(every, lambda arm: arm.task)
    parts = [part for task, own in by_task for part in _task(task, [*own], say)]
    return "".join([OVERVIEW[say.language], *parts])


def _task(task: str, arms: list[Arm], say: Words) -> Iterator[str]:
    """What was measured there; nothing where that was at other lengths alone."""
    lines = []
    for arm, name in sorted(zip(arms, told_apart(arms), strict=True), key=lambda one: one[1]):
        cells = [*_cells(arm, say)]
        if any(cells):
            lines.append([named(arm, name, say), *cells])
    if not lines:
        return
    yield f"\n## {task}\n"
    yield f"\n{say(f'unit_{arms[0].metric}')}\n"
    trained = [str(length) for length in sorted({arm.train for arm in arms})]
    notes = [say("trained_on", lengths=say.listed(trained)), say("kind", kind=arms[0].kind)]
    yield say("space").join(notes) + "\n"
    heads = [say("head_encoding"), *(f"{n}{TIMES_SIGN}" for n in TIMES)]
    yield markdown(heads, lines) + "\n"


def _cells(arm: Arm, say: Words) -> Iterator[str]:
    for times in TIMES:
        length = times * arm.train
        if arm.metric is None or (times > 1 and not arm.learned):
            yield ""
            continue
        mark = "" if arm.learned or not arm.values(arm.metric, length).by_seed else " †"
        yield cell(arm, arm.metric, length, say) + mark
