"""Every error that posenc raises on purpose.

    PosencError
    ├── SettingError       a constructor or option got a value that its formula does not allow
    ├── ShapeError         tensors whose shapes, dtypes or devices do not fit together
    ├── PositionsError     positions that contradict themselves, the tensors or the encoding
    ├── UnsupportedError   a combination that has no meaning, or that a requested backend lacks
    ├── CacheError         a key-value cache used in a way that would change the result
    ├── ConfigError        a model's configuration that contradicts itself, or cannot be one
    ├── ConversionError    a checkpoint that cannot be converted as it was asked
    ├── UnknownNameError   a name that the catalogue does not hold; the nearest ones are named
    ├── CheckError         a claim of the public check suite that does not hold
    └── LabError           text, folders or results that the lab cannot work with

Each message says what was called, with which shapes and values, and what to do.
"""

import difflib
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

# The end of float64.
LARGEST = sys.float_info.max


class PosencError(Exception):
    """Base of every error that posenc raises on purpose."""


class SettingError(PosencError, ValueError):
    """A constructor or option got a value that its formula does not allow."""


class ShapeError(PosencError, ValueError):
    """Tensors whose shapes, dtypes or devices do not fit together."""


class PositionsError(PosencError, ValueError):
    """Positions that contradict themselves, the tensors or the encoding."""


class UnsupportedError(PosencError, NotImplementedError):
    """A combination that has no meaning, or that the requested backend lacks."""


class CacheError(PosencError, ValueError):
    """A key-value cache used in a way that would silently change the result."""


class ConfigError(PosencError, ValueError):
    """A model's configuration that contradicts itself, or cannot be one."""


class ConversionError(PosencError, ValueError):
    """A checkpoint that is damaged, or that cannot be converted as it was asked."""


class UnknownNameError(PosencError, LookupError):
    """A name that the catalogue does not hold; near ones are sought among aliases, too."""

    def __init__(
        self, kind: str, name: str, known: Iterable[str], aliases: Iterable[str] = ()
    ) -> None:
        known = sorted(known)
        names = sorted({*known, *aliases})
        near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        super().__init__(f"no {kind} is called {name!r}: {hint}known are {', '.join(known)}")


class CheckError(PosencError, AssertionError):
    """A claim of the public check suite that does not hold."""


class LabError(PosencError):
    """Text, folders or results that the lab cannot work with."""


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is an int; truth values are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is an int or float that float64 holds; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= LARGEST


def listed(owner: str, needed: str = "numbers", **value: Any) -> tuple[Any, ...]:
    """The values of a sequence, or of a row of numpy's or torch's, as a tuple.

    Raises SettingError for what is none, as a bare number, and says what is needed.
    """
    ((name, sequence),) = value.items()
    try:
        return tuple(sequence.tolist() if hasattr(sequence, "tolist") else sequence)
    except TypeError:
        raise SettingError(
            f"{owner}({name}={shown(sequence)}): {name} must be a sequence of {needed}"
        ) from None


def given(**values: Any) -> dict[str, Any]:
    """Those values that are not None: `whole("CoPE", **given(heads=heads))`."""
    return {name: value for name, value in values.items() if value is not None}


def even(owner: str, name: str, value: int) -> int:
    """`value` if it is a positive even number, else a SettingError that says who wanted it."""
    whole(owner, **{name: value})
    if value % 2:
        raise SettingError(
            f"{owner}({name}={value}): dimensions turn in pairs, so {name} must be even and >= 2"
        )
    return value


def whole(owner: str, least: int = 1, **values: int) -> None:
    """Raise SettingError for the first value that is no whole number of at least `least`."""
    for name, value in values.items():
        if not is_whole(value) or value < least:
            raise SettingError(
                f"{owner}({name}={value!r}): {name} must be a whole number (int), {least} or more"
            )


def finite(owner: str, **values: float) -> None:
    """Raise SettingError for the first value that is no finite number."""
    for name, value in values.items():
        if not is_finite(value):
            raise SettingError(f"{owner}({name}={value!r}): {name} must be a finite number")


def positive(owner: str, **values: float) -> None:
    """Raise SettingError for the first value that is no finite number above 0."""
    for name, value in values.items():
        if not is_finite(value) or value <= 0:
            raise SettingError(
                f"{owner}({name}={value!r}): {name} must be greater than 0, a finite number"
            )


def probability(owner: str, **values: float) -> None:
    """Raise SettingError for the first value that is no number in [0, 1)."""
    for name, value in values.items():
        if not is_finite(value) or not 0 <= value < 1:
            raise SettingError(f"{owner}({name}={value!r}): {name} must be a number in [0, 1)")


def one_of(owner: str, known: Sequence[object], **values: object) -> None:
    """Raise SettingError for the first value that is none of the known ones; 1 is not True."""
    for name, value in values.items():
        truth = isinstance(value, bool)
        if not any(value == one and isinstance(one, bool) == truth for one in known):
            names = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
            verb = "are" if name.endswith("s") else "is"
            raise SettingError(f"{owner}({name}={value!r}): {name} {verb} {names}")


def installing(extra: str) -> str:
    """How one of posenc's extras is installed, which no package index has."""
    return f'pip install -e ".[{extra}]" in a clone of posenc'


def shown(value: object) -> str:
    """A value from a file, as much of it as a message can bear."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        # A number of thousands of digits, or an object of thousands of levels.
        return f"{type(value).__name__} beyond what can be shown"
    return text if len(text) <= 80 else f"{text[:60]}...{text[-12:]}"
