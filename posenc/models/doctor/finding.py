"""What the doctor says, and what it says it of."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from posenc.models.angles import Effect
from posenc.models.spec import ModelSpec

Weight = Literal["error", "warning", "note"]
Values = Mapping[str, Any]


class Words(NamedTuple):
    """A sentence in English and in Chinese; {names} are filled in."""

    en: str
    zh: str


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, is dropped, or breaks.

    number is what it costs, as `effect` or `words` say; patch is merged into config.json
    (RFC 7396) to mend it. engine is None where it holds for the file itself.
    """

    rule: str
    weight: Weight
    words: Words
    keys: tuple[str, ...] = ()
    engine: str | None = None
    effect: Effect | None = None
    patch: Mapping[str, Any] | None = None
    link: str | None = None
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A configuration, what was read of it, and how far it is to reach."""

    spec: ModelSpec
    values: Values
    target: int


Rule = Callable[[Case], Iterable[Finding]]
