"""Positions drawn at random from those of a longer sequence, in order."""

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.from_mask import from_mask
from posenc.positions.tokens import reading_values


def sorted_subsets(
    counts: Int[Tensor, "b 1"],
    sizes: Int[Tensor, "b 1"],
    most: int,
    largest: int,
    generator: torch.Generator | None,
) -> Int[Tensor, "b most"]:
    """For each row a uniform subset of `count` numbers of 0 .. size - 1, in order.

    `most` and `largest` bound the counts and the sizes; entries beyond a row's count are its size.
    """
    noise = uniform((counts.shape[0], largest), generator, counts.device)
    noise.masked_fill_(torch.arange(largest, device=counts.device) >= sizes, 2.0)
    # Where every row takes as many, sorting by noise would only be undone below.
    alike = reading_values() and bool((counts == most).all())
    picked = noise.topk(most, dim=-1, largest=False, sorted=not alike).indices
    if alike:
        return picked.sort(dim=-1).values
    unused = torch.arange(most, device=counts.device) >= counts
    return torch.where(unused, sizes, picked).sort(dim=-1).values


def uniform(
    shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device
) -> Float64[Tensor, "..."]:
    """Numbers in [0, 1); torch.rand takes no generator in a graph of open sizes."""
    return torch.empty(shape, dtype=torch.float64, device=device).uniform_(generator=generator)


def randomised(
    order: Int[Tensor, "b t"],
    real: Int[Tensor, "b 1"],
    longest: int,
    generator: torch.Generator | None,
) -> Int[Tensor, "b t"]:
    """Sorted positions below `longest` for the real tokens of each row; padding takes any."""
    length = order.shape[1]
    if longest < length:
        raise PositionsError(
            f"Positions.random(longest={longest}): {length} tokens need as many different "
            f"positions, so longest must be at least {length}"
        )
    chosen = sorted_subsets(real, torch.full_like(real, longest), length, longest, generator)
    return chosen.gather(1, order).clamp(max=longest - 1)


def rows_to_draw(
    call: str,
    length: int | None,
    batch: int | None,
    attention_mask: Tensor | None,
    generator: torch.Generator | None,
    device: torch.device | str | None,
) -> tuple[Int[Tensor, "b t"], Int[Tensor, "b 1"]]:
    """The order of each token in its row, and how many are real, from a mask or from sizes."""
    if attention_mask is not None:
        valid, order = from_mask(attention_mask, call)
        rows, tokens = valid.shape
        if batch not in (None, rows) or length not in (None, tokens):
            raise PositionsError(
                f"{call}({length}, batch={batch}): the attention_mask has shape ({rows}, "
                f"{tokens}), which tells both: leave them away"
            )
        real = valid.sum(-1, keepdim=True)
    else:
        rows = 1 if batch is None else batch
        if length is None or length < 1 or rows < 1:
            raise PositionsError(
                f"{call}({length}, batch={batch}): give the number of tokens, 1 or more, or an "
                "attention_mask (b, length)"
            )
        order = torch.arange(length, device=device).expand(rows, length)
        real = torch.full((rows, 1), length, device=device)
    if generator is not None and generator.device.type != order.device.type:
        raise PositionsError(
            f"{call}: the generator is on {generator.device}, the tokens on {order.device}: "
            f"use torch.Generator({order.device.type!r})"
        )
    return order, real
