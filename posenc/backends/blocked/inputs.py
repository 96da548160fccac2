"""What the tiled operation is given: one call of attention, in distances."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from posenc.backends.blocked.tiles import ROWS, SCORES, Sight


@dataclass(frozen=True, eq=False)
class Rows:
    """A vector per distance, (1|h, n, d); row n is that of distance n - zero, clamped."""

    weight: Tensor
    zero: int

    def of(self, heads: slice) -> Tensor:
        """The tables of these heads, which may be one for all."""
        return self.weight if self.weight.shape[0] == 1 else self.weight[heads]

    @property
    def last(self) -> int:
        """The greatest distance that has a row of its own."""
        return self.weight.shape[1] - 1 - self.zero


@dataclass(frozen=True, eq=False)
class Inputs:
    """score = scale * (q . k + read_q . q_rows + read_k . k_rows) + table + key_bias.

    read_q, read_k   what the tables of vectors read, where q and k are turned; None: q and k
    table            (1|h, q_len + k_len - 1), from distance 1 - k_len on; it may hold -inf
    key_bias         (1|b, h, tk), in its own dtype
    q_rows, k_rows   zero at the least distance, so that what is far in the past costs nothing
    v_rows           what the output adds for each weight
    """

    q: Tensor
    k: Tensor
    v: Tensor
    read_q: Tensor | None
    read_k: Tensor | None
    table: Tensor | None
    key_bias: Tensor | None
    q_rows: tuple[Rows, ...]
    k_rows: tuple[Rows, ...]
    v_rows: tuple[Rows, ...]
    k_order: Tensor | None
    q_document: Tensor | None
    k_document: Tensor | None
    k_valid: Tensor | None
    scale: float
    causal: bool
    window: int | None
    sinks: int
    prefix: int
    dropout: float
    seed: Tensor | None

    @property
    def dtype(self) -> torch.dtype:
        """Of the arithmetic: float64 if q or k is, else float32."""
        either = torch.float64 in (self.q.dtype, self.k.dtype)
        return torch.float64 if either else torch.float32

    @cached_property
    def infinite(self) -> bool:
        """Whether a bias hides keys."""
        biases = (bias for bias in (self.table, self.key_bias) if bias is not None)
        return any(bool((bias == -torch.inf).any()) for bias in biases)

    def sight(self, row: int) -> Sight:
        def of_row(x: Tensor | None) -> Tensor | None:
            return None if x is None else x[row % x.shape[0]]

        return Sight(
            self.q.shape[2],
            self.k.shape[2],
            self.causal,
            self.window,
            self.sinks,
            self.prefix,
            of_row(self.k_order),
            of_row(self.q_document),
            of_row(self.k_document),
            of_row(self.k_valid),
        )

    def sizes(self) -> tuple[int, int]:
        """How many queries and key heads one tile takes."""
        shared = self.q.shape[1] // self.k.shape[1]
        rows = min(self.q.shape[2], ROWS)
        while rows > 32 and shared * rows * self.k.shape[2] > SCORES:
            rows //= 2
        heads = max(1, SCORES // (shared * rows * self.k.shape[2]))
        return rows, min(heads, self.k.shape[1])

    def generator(self) -> torch.Generator | None:
        """The same numbers forward and backward."""
        if self.seed is None:
            return None
        return torch.Generator(self.q.device).manual_seed(int(self.seed))

    def groups(self, heads: int) -> Iterator[tuple[int, slice, slice]]:
        """Row of the batch, key heads and query heads that are computed together."""
        shared = self.q.shape[1] // self.k.shape[1]
        for row in range(self.q.shape[0]):
            for start in range(0, self.k.shape[1], heads):
                stop = min(start + heads, self.k.shape[1])
                yield row, slice(start, stop), slice(start * shared, stop * shared)
