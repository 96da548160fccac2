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


def words_of(only: str) -> tuple[str, ...]:
    """What stands between commas; a case's whole name, which may hold some, is one word."""
    if any(case.name == only for case in all_cases()):
        return (only,)
    return tuple(part.strip() for part in only.split(","))


def chosen(only: Sequence[str], quick: bool) -> list[Case]:
    """The cases of these groups or names, or whose names hold these words; of `quick`, one of each
    group.

    Raises UnknownNameError for a word that is none of them.
    """
    every = all_cases()
    groups = list(dict.fromkeys(case.group for case in every))
    names = {case.name for case in every}

    def asked(case: Case, word: str) -> bool:
        if word in groups:
            return case.group == word
        return case.name == word if word in names else word in case.name

    for word in only:
        if not word or not any(asked(case, word) for case in every):
            raise UnknownNameError("group, or word of a case's name,", word, groups)
    found = [case for case in every if not only or any(asked(case, word) for word in only)]
    if not quick:
        return found
    firsts = {case.group: case for case in reversed(found) if case.in_quick}
    return [firsts[group] for group in groups if group in firsts]
