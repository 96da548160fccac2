"""What is done to each tensor of a checkpoint, decided before a byte is written."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from posenc.conversion.header import BITS, Entry, Header, shown
from posenc.conversion.names import Names
from posenc.conversion.pairs import Change, FusedHeads
from posenc.errors import ConversionError, SettingError


@dataclass(frozen=True)
class Reordered:
    """A tensor of rows of `width` bytes each, of which `rows` says where each came from.

    What holds for its first len(rows) rows holds for every as many that follow.
    """

    rows: tuple[int, ...]
    width: int

    @property
    def period(self) -> int:
        """Bytes after which the same order begins anew."""
        return len(self.rows) * self.width


@dataclass(frozen=True)
class Heads:
    """How many heads a model has, where that is known."""

    heads: int | None = None
    kv_heads: int | None = None

    def __post_init__(self) -> None:
        if self.kv_heads is not None and self.heads is None:
            raise SettingError(f"{self!r}: kv_heads says nothing without heads")
        if self.heads is not None:
            FusedHeads(self.heads, self.kv_heads)

    def fused(self, names: Names) -> FusedHeads | None:
        if names.order is None:
            return None
        if self.heads is None:
            raise SettingError("heads= is needed (and kv_heads=, if fewer), for q, k, v are fused")
        return FusedHeads(self.heads, self.kv_heads, names.order)


def plan(
    headers: Iterable[Header], names: Names, change: Change, heads: Heads
) -> dict[str, Reordered]:
    """By name, the tensors whose layout changes; ConversionError where that cannot be done."""
    headers = tuple(headers)
    entries = [entry for header in headers for entry in header.entries]
    by_name = {entry.name: _reordered(entry, names, change, heads) for entry in entries}
    plans = {name: reordered for name, reordered in by_name.items() if reordered is not None}
    # Norms alone are of projections with other names, which would stay as they are.
    if all(names.find("norms", name) for name in plans):
        first = shown(entries[0].name) if entries else "nothing"
        raise ConversionError(
            f"no tensor of {headers[0].path} is named like a projection of q or k (one is called "
            f"{first}): choose another family, or give names that find them"
        )
    return plans


def _reordered(entry: Entry, names: Names, change: Change, heads: Heads) -> Reordered | None:
    # A single number holds for the whole projection, as the scale of an fp8 weight does.
    if names.find("kept", entry.name) or entry.elements <= 1:
        return None
    if names.find("one_head", entry.name):
        whole = replace(change, head_dim=_extent(entry, 0))
        return _heads_of(entry, whole, 0, None, Heads())
    if names.find("norms", entry.name):
        return _heads_of(entry, change, -1, None, heads)
    by_column = names.find("columns", entry.name)
    if by_column or names.find("rows", entry.name):
        return _heads_of(entry, change, -1 if by_column else 0, heads.fused(names), heads)
    if names.find("guarded", entry.name):
        raise ConversionError(
            f"{entry} belongs to a projection of q or k, but how to convert it is not known "
            "(packed and block-scaled weights cannot be)"
        )
    return None


def _heads_of(
    entry: Entry, change: Change, dim: Literal[0, -1], fused: FusedHeads | None, heads: Heads
) -> Reordered:
    rotated = fused.rotated if fused is not None else (True,)
    count, rest = divmod(_extent(entry, dim), change.head_dim)
    if rest or (fused is not None and count != len(rotated)):
        made_of = f"{fused!r}, {len(rotated)} heads of" if fused is not None else "heads of"
        raise _misfit(entry, dim, f"are not {made_of} {change.head_dim}")
    if fused is None and not _agrees(entry, dim, count, heads):
        raise _misfit(entry, dim, f"make {count} heads of {change.head_dim}, but {heads} was given")
    inner = math.prod(entry.shape[1:]) if dim == 0 else 1
    width, rest = divmod(inner * BITS[entry.dtype], 8)
    if rest:
        raise _misfit(entry, dim, "do not begin at whole bytes")
    return Reordered(tuple(change.rows(rotated)), width)


def _agrees(entry: Entry, dim: int, count: int, heads: Heads) -> bool:
    """Whether a tensor of `count` heads is one of a model with these."""
    known = (heads.heads, heads.kv_heads or heads.heads)
    if heads.heads is None or count in known:
        return True
    # All heads share a norm (head_dim,), or the dimension before tells them apart.
    return count == 1 and dim == -1 and (len(entry.shape) == 1 or entry.shape[-2] in known)


def _extent(entry: Entry, dim: int) -> int:
    if not entry.shape:
        raise ConversionError(f"{entry} has no dimensions")
    return entry.shape[dim]


def _misfit(entry: Entry, dim: int, why: str) -> ConversionError:
    which = "first" if dim == 0 else "last"
    return ConversionError(
        f"{entry}: the {entry.shape[dim]} entries of its {which} dimension {why}"
    )
