from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Encoding, Tags, bound_for
from posenc.encodings._absolute import Absolute, Merge
from posenc.errors import PositionsError, whole
from posenc.positions import Positions


class Binary(Absolute):
    """The binary digits of the position, lowest first, added to the embeddings.

        p[pos, i] = floor(pos / 2**i) mod 2,   i = 0 .. dim - 1

    Digits are 0 or 1, so 2**dim positions are told apart. merge "multiply" is x * (1 + p),
    "hadamard" x * p, "concat" puts the digits beside x. Raises PositionsError for fractional
    positions, for positions of 2**dim and more, and, where int64 could hold these, for a bare
    tensor, which does not tell how far it reaches.

    It is bounded, unlike the plain number, but a float per bit is wasted space: sines of falling
    frequencies are its smooth form. Neighbours can differ in every digit (7 and 8 in four).

    Source: Kazemnejad 2019, "Transformer Architecture: The Positional Encoding", section
    "The intuition".
    """

    name = "binary"
    paper = "https://kazemnejad.com/blog/transformer_architecture_positional_encoding/"
    tags = Tags(needs_extent=True)

    def __init__(self, dim: int, merge: Merge = "add") -> None:
        whole("Binary", dim=dim)
        super().__init__(dim, merge)
        self.dim = dim
        # From 63 digits on every int64 position has its own.
        self.tags = replace(type(self).tags, needs_extent=dim < 63)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield from (cls(16), cls(8, merge="multiply"), cls(64), cls(6, merge="concat"))

    def vectors(self, positions: Positions) -> Float64[Tensor, "#b t e"]:
        if self.dim < 63 and (bound := bound_for(self, positions)) > 2**self.dim:
            raise PositionsError(
                f"Binary(dim={self.dim}) tells {2**self.dim} positions apart, but got positions up "
                f"to {bound - 1}: construct it with one digit more for each doubling"
            )
        index = self.coordinates(positions)
        if index.is_floating_point():
            raise PositionsError(
                "Binary reads the digits of whole positions: give int64 positions, or take an "
                "encoding of real positions, as Sinusoidal is"
            )
        # Division, for ONNX has no shift of int64; its digits end at 2**62.
        held = min(self.dim, 63)
        powers = torch.tensor([2**i for i in range(held)], device=index.device)
        digits = index // powers % 2
        return F.pad(digits.double(), (0, self.dim - held))

    def reference_vectors(self, positions: Float64[Tensor, "b t"]) -> Float64[Tensor, "b t e"]:
        digits = [
            [[int(at) // 2**i % 2 for i in range(self.dim)] for at in row] for row in positions
        ]
        return torch.tensor(digits, dtype=torch.float64)
