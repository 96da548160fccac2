"""Curves as text: a character of braille has room for two values beside each other, four deep."""

import math
from collections.abc import Sequence
from typing import TextIO

# Bits of the dots of one character, by column and by row from the top.
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
BLANK = 0x2800
DEEP = len(DOTS[0])


def braille(values: Sequence[float], rows: int) -> list[str]:
    """Lines of a curve from its least value at the bottom to its largest at the top.

    Neighbours are joined upright; what is not finite is a gap. A curve without a slope lies in the
    middle.
    """
    heights = _heights(values, rows * DEEP)
    cells = [[BLANK] * math.ceil(len(values) / 2) for _ in range(rows)]
    for column, (before, height, after) in enumerate(
        zip([None, *heights], heights, [*heights[1:], None], strict=False)
    ):
        if height is None:
            continue
        ends = [height, _halfway(height, before, left=False), _halfway(height, after, left=True)]
        for dot in range(min(ends), max(ends) + 1):
            cells[dot // DEEP][column // 2] |= DOTS[column % 2][dot % DEEP]
    return ["".join(map(chr, row)) for row in cells]


def writable(file: TextIO, letters: str = chr(BLANK)) -> bool:
    """Whether the encoding of a file has these characters, by default those of braille."""
    try:
        letters.encode(file.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _halfway(height: int, neighbour: int | None, *, left: bool) -> int:
    """How far a value reaches towards its neighbour; of two, the left one has the dot between."""
    if neighbour is None or neighbour == height:
        return height
    step = 1 if neighbour > height else -1
    return height + step * ((abs(neighbour - height) - (not left)) // 2)


def _heights(values: Sequence[float], dots: int) -> list[int | None]:
    """Of each value how many dots it lies below the top."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return [None] * len(values)
    low, high = min(finite), max(finite)
    span = high - low
    return [
        None
        if not math.isfinite(value)
        else round((high - value) / span * (dots - 1))
        if span
        else dots // 2
        for value in values
    ]
