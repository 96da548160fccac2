"""One rank's part of a sequence, of tensors and of tokens, and the whole put together again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.plans import Plan, tokens_of_ranks
from posenc.positions.tokens import Tokens

if TYPE_CHECKING:
    from posenc.positions.positions import Positions

P = TypeVar("P")


def shard(
    x: Tensor, rank: int, size: int, plan: str | Plan = "contiguous", *, dim: int = 1
) -> Tensor:
    """What rank `rank` of `size` holds of x, whose tokens are along `dim`.

    plan  "contiguous", "zigzag", "striped", "ulysses" (contiguous outside of attention), or a
          function of the numbers of tokens and of ranks that gives int64 (size, tokens // size):
          the tokens of each rank

    Example: `shard(input_ids, rank, size, "zigzag")`.

    Raises PositionsError where the plan cannot cut the tokens in equal parts.
    """
    return x.index_select(dim, tokens_of(rank, size, plan, x.shape[dim]).to(x.device))


def unshard(parts: Sequence[Tensor], plan: str | Plan = "contiguous", *, dim: int = 1) -> Tensor:
    """The whole of the parts of all ranks, in the order of ranks: what `shard` cut.

    Example: `unshard(parts_by_all_gather, "zigzag")`.
    """
    whole = torch.cat(list(parts), dim=dim)
    index = tokens_of_ranks(plan, whole.shape[dim], len(parts))
    return whole.index_select(dim, index.reshape(-1).argsort().to(whole.device))


def tokens_of(rank: int, size: int, plan: str | Plan, tokens: int) -> Int[Tensor, "n"]:
    """The tokens of one rank."""
    if not 0 <= rank < size:
        raise PositionsError(f"shard(rank={rank}, size={size}): 0 <= rank < size is needed")
    return tokens_of_ranks(plan, tokens, size)[rank]


def shard_positions(
    self: "Positions", rank: int, size: int, plan: str | Plan = "contiguous"
) -> "Positions":
    """The tokens of rank `rank` of `size`, as queries and as keys; plans as in `posenc.shard`.

    They keep what they are in the whole: position, order, document, padding and the length of
    their sequence. What their queries see of other ranks is `with_keys`.

    Example: `Positions.build(8, causal=True).shard(0, 2, "zigzag")`.

    Raises PositionsError where the plan cannot cut the tokens in equal parts, and where the
    queries are not all of the keys, as in decoding.
    """
    if self.q_len != self.k_len:
        raise PositionsError(
            f"Positions.shard of {self.q_len} queries and {self.k_len} keys: a plan cuts both "
            "alike, so queries must be all of the keys; sharded caches are not supported"
        )
    index = tokens_of(rank, size, plan, self.k_len).to(self.device)
    held = self.ordered()
    return replace(held, queries=held.queries[index], keys=held.keys[index])


def unshard_positions(
    make: Callable[..., P], parts: "Sequence[Positions]", plan: str | Plan = "contiguous"
) -> P:
    """The whole of the shards of all ranks, in the order of ranks.

    Example: `Positions.unshard([whole.shard(rank, 2) for rank in range(2)])`.
    """
    first = parts[0]
    queries, keys = (
        _joined([getattr(part, side) for part in parts], plan) for side in ("queries", "keys")
    )
    return make(queries, keys, first.causal, first.extent, first.unit_step, first.start)


def with_keys(self: "Positions", keys: Tokens) -> "Positions":
    """These queries before the keys of another rank: what one step of ring attention computes.

    Example: `mine.with_keys(theirs.keys)`, both shards of one whole.

    Raises PositionsError where an order is counted, which would begin anew with these keys.
    """
    if self.queries.order is None or keys.order is None:
        raise PositionsError(
            "Positions.with_keys: the order of a side is counted, but these keys are a part of "
            "others: take both from positions.shard(...) or positions.ordered()"
        )
    return replace(self, keys=keys)


def _joined(parts: Sequence[Tokens], plan: str | Plan) -> Tokens:
    """One side of all ranks, put together."""

    def whole(name: str) -> Tensor | None:
        held = [getattr(part, name) for part in parts]
        if held[0] is None:
            return None
        axis = 1 if held[0].ndim == 3 else held[0].ndim - 1
        return unshard(held, plan, dim=axis)

    position = whole("position")
    assert position is not None
    return Tokens(position, *map(whole, ("order", "document", "length", "valid")))
