"""Numbers and lists as people read them."""

import math
from collections.abc import Iterable

MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"


def number(value: float | None, digits: int = 2, lost: str = "diverged") -> str:
    """`value` with a true minus sign; a dash for None, `lost` for what is not finite."""
    if value is None:
        return DASH
    if not math.isfinite(value):
        return lost
    shown = f"{abs(value):,.{digits}f}"
    return f"{MINUS}{shown}" if value < 0 and _shows(shown) else shown


def _shows(shown: str) -> bool:
    """Whether a number is not all zeros after rounding; a zero has no sign."""
    return any(letter in "123456789" for letter in shown)


def signed(value: float, digits: int = 2) -> str:
    """Like `number`, with a plus sign where the value is above zero."""
    shown = number(value, digits)
    return f"+{shown}" if value > 0 and _shows(shown) else shown


def listed(names: Iterable[str]) -> str:
    """`a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def count(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
