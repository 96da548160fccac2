"""What is done to each tensor of a checkpoint, decided before a byte is written."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from posenc.conversion.config import Geometry
from posenc.conversion.header import BITS, Entry, Header
from posenc.conversion.names import BESIDE, SIDE, Names
from posenc.conversion.pairs import Change, FusedHeads
from posenc.errors import ConversionError, SettingError, shown


@dataclass(frozen=True)
class Reordered:
    """A tensor of rows of `width` bytes each, of which `rows` says where each came from.

    `moves` says the same in slices (new, old) of rows, without those that stay. What holds for the
    first len(rows) rows holds for every as many that follow.
    """

    rows: tuple[int, ...]
    moves: tuple[tuple[slice, slice], ...]
    width: int

    @property
    def period(self) -> int:
        """Bytes after which the same order begins anew."""
        return len(self.rows) * self.width


def plan(
    headers: Sequence[Header], names: Names, change: Change, known: Geometry
) -> dict[str, Reordered]:
    """By name, the tensors whose layout changes; ConversionError where that cannot be done."""
    entries = [entry for header in headers for entry in header.entries]
    plans = {}
    for entry in entries:
        reordered = _reordered(entry, names, change, known)
        if reordered is not None:
            plans[entry.name] = reordered
    # Norms alone are of projections with other names, which would stay as they are.
    if all(names.find("norms", name) for name in plans):
        first = shown(entries[0].name) if entries else "nothing"
        raise ConversionError(
            f"no tensor of {headers[0].path} is named like a projection of q or k (one is called "
            f"{first}): choose another family, or give names that find them"
        )
    # Families find them, or refuse what they do not know.
    if names.guarded is None:
        _check_companions(entries, names, plans)
    return plans


def _check_companions(
    entries: Sequence[Entry], names: Names, plans: Mapping[str, Reordered]
) -> None:
    """Raise where names of one's own leave something of what they find as it was."""
    modules = {name.rpartition(".")[0]: name for name in plans}
    beside = {module.rpartition(".")[0]: name for module, name in modules.items()}
    for entry in entries:
        if entry.name in plans or entry.elements <= 1 or names.find("kept", entry.name):
            continue
        module, _, last = entry.name.rpartition(".")
        found = modules.get(module) if last == "bias" else None
        if other := BESIDE.search(entry.name):
            found = beside.get(entry.name[: other.start()])
        if found is not None:
            raise ConversionError(
                f"{entry} belongs to {shown(found)}, and the names given leave it in the old "
                "layout: let rows (--pattern) find it too, or, of biases and norms, columns "
                "(--columns)"
            )


def _reordered(entry: Entry, names: Names, change: Change, known: Geometry) -> Reordered | None:
    # A single number holds for the whole projection, as the scale of an fp8 weight does.
    if names.find("kept", entry.name) or entry.elements <= 1:
        return None
    if names.find("one_head", entry.name):
        whole = replace(change, head_dim=_extent(entry, 0))
        return _heads_of(entry, whole, 0, None, Geometry())
    if names.find("norms", entry.name):
        return _heads_of(entry, change, -1, None, known)
    by_column = names.find("columns", entry.name)
    if by_column or names.find("rows", entry.name):
        return _heads_of(entry, change, -1 if by_column else 0, _fused(names, known), known)
    if names.find("guarded", entry.name):
        raise ConversionError(
            f"{entry} belongs to a projection of q or k, but how to convert it is not known "
            "(packed and block-scaled weights cannot be)"
        )
    return None


def _fused(names: Names, known: Geometry) -> FusedHeads | None:
    if names.order is None:
        return None
    if known.heads is None:
        raise SettingError("heads= is needed (and kv_heads=, if fewer), for q, k, v are fused")
    if known.order not in (None, names.order):
        raise SettingError(
            f"names of heads that are {names.order}: by its config.json this model's matrix of q, "
            f"k and v has them {known.order}. "
            + (
                "The names 'chatglm' are of such, or give Names"
                if known.order == "concatenated"
                else "Convert its parts by convert_layout"
            )
        )
    return FusedHeads(known.heads, known.kv_heads, names.order)


def _heads_of(
    entry: Entry, change: Change, dim: Literal[0, -1], fused: FusedHeads | None, known: Geometry
) -> Reordered:
    extent = _extent(entry, dim)
    inner = math.prod(entry.shape[1:]) if dim == 0 else 1
    width, bits = divmod(inner * BITS[entry.dtype], 8)
    count = extent // change.head_dim
    why = change.misfit(extent, fused)
    if why is None and fused is None and not _agrees(entry, dim, count, known):
        heads = f"heads={known.heads} and kv_heads={known.kv_heads or known.heads}"
        why = f"make {count} heads of {change.head_dim}, but {heads} are known"
    if why is None and bits:
        why = "do not begin at whole bytes"
    if why is not None:
        which = "first" if dim == 0 else "last"
        raise ConversionError(f"{entry}: the {extent} entries of its {which} dimension {why}")
    rotated = (True,) if fused is None else fused.rotated
    return Reordered(tuple(change.rows(rotated)), tuple(change.moves(rotated)), width)


def _agrees(entry: Entry, dim: int, count: int, known: Geometry) -> bool:
    """Whether a tensor of `count` heads is one of a model with these.

    A vision tower may have as many queries, of other heads, as the text has keys.
    """
    if known.heads is None:
        return True
    numbers = {"q": known.heads, "k": known.kv_heads or known.heads}
    side = SIDE.search(entry.name)
    fitting = [numbers[side[1]]] if side else list(numbers.values())
    if count in fitting:
        return True
    # All heads share a norm (head_dim,), or the dimension before tells them apart.
    return count == 1 and dim == -1 and (len(entry.shape) == 1 or entry.shape[-2] in fitting)


def _extent(entry: Entry, dim: int) -> int:
    if not entry.shape:
        raise ConversionError(f"{entry} has no dimensions")
    return entry.shape[dim]
