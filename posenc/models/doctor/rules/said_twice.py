"""rope_scaling and rope_parameters in one file, which say different things."""

from collections.abc import Iterator, Mapping
from typing import Any

from posenc.models.doctor.engine import text
from posenc.models.doctor.finding import Case, Finding, Words

_PAIRS = (("rope_theta", "rope_theta"), ("partial_rotary_factor", "partial_rotary_factor"))


def said_twice(case: Case) -> Iterator[Finding]:
    """transformers 5 and older engines then run two different models of one file."""
    values = text(dict(case.values))
    inner, older = values.get("rope_parameters"), values.get("rope_scaling")
    if not isinstance(inner, Mapping):
        return
    keys = [
        f"{name}, rope_parameters.{own}"
        for name, own in _PAIRS
        if None not in (values.get(name), inner.get(own)) and values[name] != inner[own]
    ]
    if isinstance(older, Mapping) and _plain(older) - _plain(inner):
        keys.append("rope_scaling, rope_parameters")
    if keys:
        yield Finding(
            "said-twice",
            "error",
            Words(
                "Two keys that mean the same say different things: engines choose differently.",
                "两个含义相同的键给出不同的值：各引擎的选择不同。",
            ),
            keys=tuple(keys),
        )


def _plain(rope: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Its settings, whichever of its names the type has."""
    names = {"type": "rope_type"}
    return {(names.get(name, name), repr(x)) for name, x in rope.items() if x is not None}
