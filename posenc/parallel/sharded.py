"""The positions of a whole sequence, the part of each rank, and which parts see one another.

Letters: s ranks, n tokens of each, p pieces of a part, b batch.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.errors import PositionsError, ShapeError, shown, whole
from posenc.normal_form.visibility import Visibility
from posenc.positions import Positions
from posenc.positions.plans import PLANS, Plan, tokens_of_ranks
from posenc.torch_modes import kept

_PIECES = 16


@dataclass(frozen=True, eq=False)
class Sharded:
    """Positions of a whole sequence on `size` ranks: made once per forward, for all layers.

    whole  of all tokens, alike on every rank: whole numbers alone, a few bytes per token
    plan   as in `posenc.shard`, and that by which q, k and v are cut

    Example: `Sharded(Positions.build(4096, causal=True), size=4, plan="zigzag")`.

    Raises PositionsError where the plan cannot cut the tokens in equal parts, and where the queries
    are not all of the keys.
    """

    whole: Positions
    size: int
    plan: str | Plan = "contiguous"

    def __post_init__(self) -> None:
        if not isinstance(self.whole, Positions):
            raise PositionsError(
                f"positions={shown(self.whole)} of tokens that are shared out: give those of the "
                "whole sequence, Positions.build(tokens, causal=True), or Sharded of them"
            )
        whole("Sharded", size=self.size)

    @kept
    def parts(self) -> tuple[Positions, ...]:
        """The positions of each rank."""
        return tuple(self.whole.shard(rank, self.size, self.plan) for rank in range(self.size))

    @kept
    def tokens(self) -> Int[Tensor, "s n"]:
        """Which tokens each rank has."""
        return tokens_of_ranks(self.plan, self.whole.k_len, self.size)

    @kept
    def run(self) -> int:
        """How many tokens in a row every rank has at a time: all ranks' tokens are such runs."""
        steps = self.tokens[:, 1:] - self.tokens[:, :-1] != 1
        starts = [0, *sorted({int(i) + 1 for i in steps.any(0).nonzero()}), self.tokens.shape[1]]
        return math.gcd(*starts)

    def meetings(self, seen: Visibility) -> list[list[bool]]:
        """Of every rank whether its queries may see any key of each other.

        By the least and the greatest order and document of pieces of a part: no pair that sees is
        missed. It is asked once, for a GPU is waited for.
        """
        known: dict[Visibility, Any] = self.__dict__.setdefault("_meetings", {})
        if seen not in known:
            known[seen] = _meetings(self.parts, seen).tolist()
        return known[seen]


def fitted(
    positions: Positions | Sharded, size: int, plan: str | Plan | None, default: str
) -> Sharded:
    """The positions on these ranks, or PositionsError where they were made for others.

    plan  None: that of Sharded, else the default
    """
    if isinstance(positions, Sharded):
        if positions.size != size:
            raise PositionsError(
                f"Sharded(size={positions.size}) on {size} ranks: make it for all of them"
            )
        if plan is not None and _rule(plan) != _rule(positions.plan):
            raise PositionsError(
                f"plan={plan!r}, but Sharded(plan={positions.plan!r}): cut q, k and v by the plan "
                "of Sharded, and leave the other away"
            )
        return positions
    return Sharded(positions, size, default if plan is None else plan)


def _rule(plan: str | Plan) -> str | Plan:
    """The same for two names of one plan."""
    return PLANS.get(plan, plan) if isinstance(plan, str) else plan


def check_part(q: Tensor, sharded: Sharded) -> None:
    """Raise ShapeError where q (b, h, n, d) does not hold the tokens of one rank."""
    tokens = sharded.tokens.shape[1]
    if q.shape[2] != tokens:
        raise ShapeError(
            f"q {tuple(q.shape)}, but each of {sharded.size} ranks has {tokens} tokens of these "
            "positions: cut it by posenc.shard with the same plan"
        )


def _meetings(parts: tuple[Positions, ...], seen: Visibility) -> Bool[Tensor, "s s"]:
    q_low, q_high = _bounds([part.orders()[0] for part in parts], queries=True)
    k_low, k_high = _bounds([part.orders()[1] for part in parts], queries=False)
    some = torch.ones((1,) * 5, dtype=torch.bool, device=q_low.device)
    if seen.causal:
        past = k_low <= q_high
        some = some & (past | (k_low < seen.prefix) if seen.prefix else past)
    if seen.window is not None:
        near = (k_high > q_low - seen.window) & (k_low < q_high + seen.window)
        some = some & (near | (k_low < seen.sinks) if seen.sinks else near)
    if seen.chunk is not None:
        some = some & (q_low // seen.chunk <= k_high // seen.chunk)
        some = some & (k_low // seen.chunk <= q_high // seen.chunk)
    documents = [(part.queries.document, part.keys.document) for part in parts]
    if all(q is not None and k is not None for q, k in documents):
        q_low, q_high = _bounds([q for q, _ in documents if q is not None], queries=True)
        k_low, k_high = _bounds([k for _, k in documents if k is not None], queries=False)
        some = some & (q_low <= k_high) & (k_low <= q_high)
    valid = [part.keys.valid.long() for part in parts if part.keys.valid is not None]
    if valid:
        some = some & (_bounds(valid, queries=False)[1] == 1)
    return some.expand(len(parts), len(parts), *some.shape[2:]).flatten(2).any(-1)


def _bounds(told: list[Tensor], queries: bool) -> tuple[Tensor, Tensor]:
    """The least and the greatest of each piece: (s, 1, b, p, 1) of queries, (1, s, b, 1, p)."""
    rows = torch.stack([x.view(-1, x.shape[-1]) for x in told])
    n = rows.shape[-1]
    pieces = max(p for p in range(1, _PIECES + 1) if n % p == 0)
    each = rows.unflatten(-1, (pieces, n // pieces))
    low, high = each.amin(-1), each.amax(-1)
    if queries:
        return low[:, None, ..., None], high[:, None, ..., None]
    return low[None, :, :, None], high[None, :, :, None]
