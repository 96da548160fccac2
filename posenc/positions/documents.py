"""Packed documents beside encodings, as one item of a list."""

from dataclasses import dataclass

from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.positions import Positions
from posenc.positions.tokens import reading_values


@dataclass(frozen=True, eq=False)
class Documents:
    """Packed documents as one item of a list: attend(q, k, v, [rope, Documents(ids)]).

    ids  (k_len,) or (b, k_len), as in `Positions.build(documents=...)`, which it stands for:
         positions restart in each document, and no token sees another document
    """

    ids: Tensor

    def place(self, positions: Positions) -> Positions:
        plain = positions.in_order and positions.unit_step
        if not plain or (reading_values() and bool((positions.keys.position[..., 0] != 0).any())):
            raise PositionsError(
                "Documents(ids) packs plain positions, but these are padded, packed or explicit "
                "already: build them whole with Positions.build(documents=..., ...)"
            )
        return Positions.build(
            positions.q_len,
            positions.k_len,
            causal=positions.causal,
            documents=self.ids,
            extent=positions.extent,
        )
