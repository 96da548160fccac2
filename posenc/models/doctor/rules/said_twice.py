"""rope_scaling and rope_parameters in one file, which say different things."""

from collections.abc import Iterator, Mapping
from typing import Any

from posenc.models.doctor.finding import Case, Finding, Words
from posenc.models.spellings import text


def said_twice(case: Case) -> Iterator[Finding]:
    """transformers 5 and older engines then run two different models of one file."""
    values = text(dict(case.values))
    inner, older = values.get("rope_parameters"), values.get("rope_scaling")
    if not isinstance(inner, Mapping):
        return
    # Two bases or two shares that contradict each other are refused when they are read.
    if isinstance(older, Mapping) and _plain(older) - _plain(inner):
        yield Finding(
            "said-twice",
            "error",
            Words(
                "Two keys that mean the same say different things: engines choose differently.",
                "两个含义相同的键给出不同的值：各引擎的选择不同。",
            ),
            keys=("rope_scaling", "rope_parameters"),
        )


def _plain(rope: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Its settings, whichever of its names the type has."""
    names = {"type": "rope_type"}
    return {(names.get(name, name), repr(x)) for name, x in rope.items() if x is not None}
