"""The same tokens at other coordinates."""

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.build import extent_of
from posenc.positions.sequences import length_of
from posenc.positions.tokens import whole_or_double

if TYPE_CHECKING:
    from posenc.positions.positions import Positions


def at(self: "Positions", ids: Tensor) -> "Positions":
    """The same tokens at coordinates (t,), (b, t) or (b, t, axes); who sees whom stays.

    Raises PositionsError where the queries are not all of the keys, and for coordinates below
    0 or not finite.
    """
    if self.q_len != self.k_len:
        raise PositionsError(
            f"Positions.at of {self.q_len} queries and {self.k_len} keys: one row of "
            "coordinates says where both are only where they are the same tokens"
        )
    held, ids = self.ordered(), whole_or_double(ids)
    length = length_of(ids, held.keys.document, held.keys.valid)
    queries, keys = (
        replace(side, position=ids, length=length) for side in (held.queries, held.keys)
    )
    extent = extent_of(ids, "Positions.at(ids)")
    return replace(held, queries=queries, keys=keys, extent=extent, unit_step=False, start=0)
