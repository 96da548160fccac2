"""What random positions are drawn by: rows of tokens, sorted subsets, and Positions of them."""

from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.build import keys_from
from posenc.positions.from_mask import from_mask
from posenc.positions.tokens import reading_values

P = TypeVar("P")


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


def drawn(
    make: Callable[..., P],
    ids: Int[Tensor, "b t"],
    batch: int | None,
    attention_mask: Tensor | None,
    longest: int,
    causal: bool,
) -> P:
    """Positions at these ids; one row of them where no batch was asked for."""
    ids = ids[0] if batch is None and attention_mask is None else ids
    keys, _ = keys_from(ids.shape[-1], attention_mask, ids=ids)
    return make(keys, keys, causal, longest)
