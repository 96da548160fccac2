"""How much one output of a model differs from another."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from posenc.errors import ShapeError


@dataclass(frozen=True)
class Change:
    """Largest and mean absolute difference, and the mean against the spread of the output."""

    largest: float
    mean: float
    relative: float


def change(before: Float[Tensor, "*shape"], after: Float[Tensor, "*shape"]) -> Change:
    """The difference of two outputs for the same tokens.

        relative = mean |after - before| / standard deviation of before

    Raises ShapeError for outputs of other shapes.
    """
    if before.shape != after.shape:
        raise ShapeError(f"change({tuple(before.shape)}, {tuple(after.shape)}): shapes differ")
    apart = (after.double() - before.double()).abs()
    spread = before.double().std(correction=0).item()
    mean = apart.mean().item()
    return Change(apart.max().item(), mean, mean / spread if spread else float(mean > 0))
