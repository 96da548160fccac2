"""Encodings that the page has no JavaScript for: it shows what Python tells of them."""

from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.encoding import Context, Encoding, Tags
from posenc.encodings._absolute import Absolute
from posenc.positions import Positions
from posenc.terms import DistanceTable, GatherTable, Rotate, Slope, Term, ValueTable


class Stairs(Encoding):
    """Heads subtract whole multiples of 4 tokens, other ones ahead than behind."""

    name, family, heads = "stairs", "bias", 2

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls()

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        distance = torch.arange(-400, 401)
        behind = -(-distance).clamp(min=0).div(4, rounding_mode="floor")
        steps = behind - 2 * distance.clamp(min=0).div(4, rounding_mode="floor")
        return (DistanceTable(torch.stack((steps, 2 * steps)).to(dtype), zero=400),)


class Drill(Encoding):
    """Six of eight dimensions turn, each head at a speed of its own, and lose with distance."""

    name, family, heads, head_dim = "drill", "rotary", 2, 8
    tags = Tags(causal_only=True)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls()

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        speed = torch.tensor([[1.0, 0.1, 0.01], [0.5, 0.3, 0.0]], dtype=torch.float64)
        queries, keys = (
            at.double().reshape(-1, 1, at.shape[-1], 1) * speed[:, None]
            for at in (positions.queries.position, positions.keys.position)
        )
        slopes = Slope(torch.tensor([0.25, 0.5], dtype=dtype))
        return (Rotate(queries, keys, "interleaved", gain=1.25), slopes)


class Rungs(Absolute):
    """A trained vector for each of 7 positions, over and over again."""

    name, family = "rungs", "absolute"

    def __init__(self, dim: int = 6) -> None:
        super().__init__(dim, "multiply")
        self.dim = dim
        self.weight = torch.nn.Parameter(torch.zeros(7, dim))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls()

    def vectors(self, positions: Positions) -> Tensor:
        return self.weight[positions.queries.position.long() % 7].view(
            -1, positions.q_len, self.dim
        )


class Reader(Encoding):
    """Reads the query, so that a number for each distance does not tell all."""

    name, family, heads, head_dim = "reader", "content", 1, 8

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(9, 8))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls()

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        weight = self.weight[None].to(dtype)
        return (
            GatherTable(weight, zero=4, side="q", saturates=True),
            ValueTable(weight, zero=4, saturates=True),
        )


ALL = (Stairs, Drill, Rungs, Reader)
