"""What a row of a results file may hold: checked once, where it is read from the disk.

Kinds of rows: `train`, `loss` (per protocol and length), `accuracy` (per length), `missing` (a
length that the encoding cannot serve, with the reason), `by_position`, `cost`, and `done` or
`failed` at the end. Rows of other kinds, and other keys, are let through as long as they are plain
and of a sane size.
"""

import json
from collections.abc import Callable
from typing import Any

# What float64 holds exactly; no count, length or time comes near.
LARGEST = 2**53
# No float32 is larger, which models compute in; squares of it are float64's.
FARTHEST = 2.0**128
DEEPEST = 8

REQUIRED = {
    "train": ("step",),
    "loss": ("protocol", "length", "loss"),
    "missing": ("length",),
    "accuracy": ("length", "exact", "examples", "token", "loss"),
    "by_position": ("edges", "loss"),
    "cost": ("seconds",),
    "done": (),
    "failed": (),
}


def parse_row(line: bytes) -> dict[str, Any]:
    """The row that a line holds. Raises ValueError with what is wrong with it otherwise."""
    try:
        row = json.loads(line, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(row, dict) or not isinstance(row.get("kind"), str):
        raise ValueError("it is no object with a kind")
    check_plain(row)
    for key in REQUIRED.get(row["kind"], ()):
        if key not in row:
            raise ValueError(f"a row of kind {row['kind']!r} needs {key!r}")
    for key, value in row.items():
        allowed, needed = _VALUES.get(key, (None, ""))
        if key == "loss" and row["kind"] == "by_position":
            allowed, needed = _losses, "a list of numbers"
        if allowed is not None and not allowed(value):
            raise ValueError(f"{key} is {_short(value)}, and {needed} is needed")
    if row["kind"] == "accuracy" and row["exact"] > row["examples"]:
        raise ValueError(f"exact is {row['exact']}, and there are {row['examples']} examples")
    if row["kind"] == "by_position" and len(row["edges"]) != len(row["loss"]) + 1:
        raise ValueError(f"{len(row['loss'])} losses lie between {len(row['edges'])} edges")
    return row


def check_plain(value: Any, depth: int = 0) -> None:
    """Raise ValueError where a value from JSON is nested too deep, or holds too large a number."""
    if depth > DEEPEST:
        raise ValueError("it is nested too deep")
    if isinstance(value, dict):
        for one in value.values():
            check_plain(one, depth + 1)
    elif isinstance(value, list):
        for one in value:
            check_plain(one, depth + 1)
    elif isinstance(value, int | float) and not is_number(value):
        raise ValueError(f"{_short(value)} is no number that a run can have written")


def is_number(value: Any) -> bool:
    """Whether it is a float32's size, and no larger than what float64 counts where it is whole."""
    if isinstance(value, int):
        return abs(value) <= LARGEST
    return isinstance(value, float) and abs(value) < FARTHEST


def is_whole(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= LARGEST


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def _losses(value: Any) -> bool:
    return isinstance(value, list) and all(one is None or is_number(one) for one in value)


def _edges(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_number, value))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _short(value: Any) -> str:
    shown = (
        "a very large number" if isinstance(value, int) and not is_number(value) else repr(value)
    )
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


# A loss that is no finite number is null; earlier versions wrote its name.
_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "protocol": (lambda value: isinstance(value, str), "a name"),
    "length": (lambda value: is_whole(value, 1), "a whole number above 0"),
    "step": (is_whole, "a whole number"),
    "seconds": (is_number, "a number"),
    "rows": (is_whole, "a whole number"),
    "loss": (
        lambda value: value is None or isinstance(value, str) or is_number(value),
        "a number or null",
    ),
    "edges": (_edges, "a list of numbers"),
    "examples": (lambda value: is_whole(value, 1), "a whole number above 0"),
    "exact": (is_whole, "a whole number"),
    "token": (_is_share, "a share from 0 to 1"),
    "chance": (_is_share, "a share from 0 to 1"),
    "parameters": (is_whole, "a whole number"),
    "encoding_parameters": (is_whole, "a whole number"),
    "steps": (is_whole, "a whole number"),
    "ms_per_step": (is_number, "a number"),
}
