"""The one list of what is measured, in the order of the page."""

from collections.abc import Sequence

from posenc.bench import (
    attention,
    attention_rows,
    building,
    converting,
    crossings,
    decoding,
    overhead,
    rotary,
    startup,
    training,
    whole_model,
)
from posenc.bench.case import Case
from posenc.errors import UnknownNameError


def all_cases() -> list[Case]:
    """Every case; names are unique."""
    return [
        *rotary.cases(),
        *attention_rows.cases(),
        *attention.cases(),
        *crossings.cases(),
        *attention.memory_cases(),
        *decoding.cases(),
        *overhead.cases(),
        *whole_model.cases(),
        *training.cases(),
        *building.cases(),
        *converting.cases(),
        *startup.cases(),
    ]


def chosen(only: Sequence[str], quick: bool) -> list[Case]:
    """The cases of these groups, or whose names hold these words; of `quick`, one of each group.

    Raises UnknownNameError for a word that is neither.
    """
    every = all_cases()
    groups = list(dict.fromkeys(case.group for case in every))
    for word in only:
        known = word in groups or (word and any(word in case.name for case in every))
        if not known:
            raise UnknownNameError("group, or word of a case's name,", word, groups)
    found = [
        case
        for case in every
        if not only or any(case.group == word or (word not in groups and word in case.name)
                           for word in only)
    ]  # fmt: skip
    if not quick:
        return found
    firsts = {case.group: case for case in reversed(found) if case.in_quick}
    return [firsts[group] for group in groups if group in firsts]
