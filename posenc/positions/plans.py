"""Which tokens of a sequence each rank holds, as context parallelism cuts it.

Letters: s ranks, n tokens of each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import PositionsError, UnknownNameError
from posenc.positions.tokens import reading_values

Plan = Callable[[int, int], Tensor]


def contiguous(tokens: int, size: int) -> Int[Tensor, "s n"]:
    """Rank r holds the r-th of `size` chunks; of causal work the last rank has the most."""
    return _chunks("contiguous", tokens, size, size)


def zigzag(tokens: int, size: int) -> Int[Tensor, "s n"]:
    """Rank r holds chunks r and 2 size - 1 - r of 2 size: the same causal work for each."""
    chunks = _chunks("zigzag", tokens, size, 2 * size)
    return torch.cat((chunks[:size], chunks[size:].flip(0)), dim=1)


def striped(tokens: int, size: int) -> Int[Tensor, "s n"]:
    """Rank r holds tokens r, r + size, r + 2 size, ... (Brandon et al. 2023, arXiv:2311.09431)."""
    return _chunks("striped", tokens, size, size).view(-1, size).t()


# Ulysses has contiguous tokens outside of attention, and all tokens of some heads inside.
PLANS: Mapping[str, Plan] = MappingProxyType(
    {"contiguous": contiguous, "zigzag": zigzag, "striped": striped, "ulysses": contiguous}
)


@dataclass(frozen=True)
class PerDocument:
    """A plan that cuts each packed document by itself, so that ranks hold a part of every one.

    lengths  tokens of each document with its padding, in order
    plan     how each of them is cut, by name or as a function

    Example: `positions.shard(rank, 2, plan=PerDocument([4, 8]))`.

    Raises PositionsError where a document cannot be cut, or lengths do not add up.
    Source: TransformerEngine's thd_get_partitioned_indices.
    """

    lengths: Sequence[int]
    plan: str | Plan = "zigzag"

    def __call__(self, tokens: int, size: int) -> Int[Tensor, "s n"]:
        if sum(self.lengths) != tokens:
            raise PositionsError(
                f"PerDocument({list(self.lengths)}): {sum(self.lengths)} tokens in all, but the "
                f"sequence has {tokens}: give the length of every document, padding included"
            )
        parts, start = [], 0
        for n, length in enumerate(self.lengths):
            try:
                parts.append(tokens_of_ranks(self.plan, length, size) + start)
            except PositionsError as error:
                raise PositionsError(f"PerDocument, document {n}: {error}") from None
            start += length
        return torch.cat(parts, dim=1)


def tokens_of_ranks(plan: str | Plan, tokens: int, size: int) -> Int[Tensor, "s n"]:
    """The tokens of every rank, each token once.

    Raises PositionsError for an unknown name, for numbers of tokens that the plan cannot cut in
    equal parts, and for a function that gives no such index.
    """
    if isinstance(plan, str):
        if plan not in PLANS:
            raise UnknownNameError("plan", plan, PLANS)
        return PLANS[plan](tokens, size)
    index = plan(tokens, size)
    if index.dtype != torch.int64 or index.shape != (size, tokens // size):
        raise PositionsError(
            f"shard(plan={plan!r}) gave {tuple(index.shape)} of {index.dtype} for {tokens} tokens "
            f"on {size} ranks: an index of int64 with one row per rank, ({size}, "
            f"{tokens // size}), is needed"
        )
    if reading_values() and not torch.equal(index.reshape(-1).sort().values, torch.arange(tokens)):
        raise PositionsError(
            f"shard(plan={plan!r}) does not give each of {tokens} tokens to one of {size} ranks"
        )
    return index


def _chunks(plan: str, tokens: int, size: int, count: int) -> Int[Tensor, "c n"]:
    """The tokens in `count` chunks of one length."""
    if tokens % count:
        raise PositionsError(
            f"shard(size={size}, plan={plan!r}): {tokens} tokens are not a multiple of {count}: "
            f"pad to {-(-tokens // count) * count}, behind the last token, and tell what is "
            "padding by attention_mask"
        )
    return torch.arange(tokens).view(count, -1)
