"""What a figure is of: the numbers of an encoding or a table, and how it is called."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.analysis import measure
from posenc.analysis.probe_context import context_of_one_token, device_of
from posenc.encoding import Encoding
from posenc.errors import SettingError, ShapeError
from posenc.lowering import embeds_only, lower
from posenc.positions import Positions
from posenc.terms import Term

# A curve, and a matrix, of so many tokens hold more than a figure has room for.
LONGEST, LARGEST = 8192, 1024


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers with one row per position, or per distance, and the words for both sides."""

    values: Float64[Tensor, "t c"]
    title: str
    rows: Literal["position", "back"]
    columns: Literal["dimension", "column"]
    note: str


def table_of(source: Encoding | Tensor, length: int | None) -> Table:
    """An absolute encoding's vectors, any other's words on distances, or a table as it is.

    length None: 64 rows of an encoding, all of a table. Raises SettingError for a length out of
    reach, ShapeError for a table that is not (positions, columns) of real numbers.
    """
    if isinstance(source, Encoding):
        length = checked_length(64 if length is None else length, LONGEST)
        if embeds_only(source):
            values = measure.position_table(source, length)
            return Table(values, "heatmap_position", "position", "dimension", note_of(source))
        values = measure.distance_table(source, length)
        return Table(values, "heatmap_back", "back", "column", note_of(source))
    if not isinstance(source, Tensor) or source.ndim != 2 or not source.numel():
        shape = tuple(source.shape) if isinstance(source, Tensor) else type(source).__name__
        raise ShapeError(f"a figure of {shape}: give an encoding or a table (positions, columns)")
    if source.is_complex():
        raise ShapeError(f"a figure of a table of {source.dtype}: give real numbers")
    rows = source if length is None else source[: checked_length(length, LONGEST)]
    return Table(rows.detach().cpu().double(), "heatmap_row", "position", "column", "")


def checked_length(length: int, most: int = LARGEST) -> int:
    """`length` where a figure can show so many tokens, else a SettingError."""
    if not 2 <= length <= most:
        raise SettingError(f"length={length}: this figure shows 2 to {most} tokens")
    return length


def checked_index(name: str, value: int, count: int) -> int:
    """`value` where there are more of its kind, else a SettingError that says how many."""
    if not 0 <= value < count:
        raise SettingError(f"{name}={value}: there are {count}, counted from 0")
    return value


def note_of(encoding: object) -> str:
    """The repr, or the class of one whose settings were not kept as attributes."""
    try:
        return repr(encoding)
    except AttributeError:
        return type(encoding).__name__


def terms_of(encoding: Encoding) -> tuple[Term, ...]:
    """What it lowers to, for a few tokens: which figures there are depends on it."""
    if embeds_only(encoding):
        return ()
    at = Positions.build(4, causal=True, device=device_of(encoding))
    context = context_of_one_token(encoding, at.k_len)
    return lower(encoding, at, context=context, dtype=torch.float64).terms
