"""What biases share that are a table by distance."""

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from posenc.encoding import (
    Context,
    Encoding,
    Keys,
    Pairs,
    Queries,
    Scores,
    Tags,
    reach_for,
)
from posenc.errors import whole
from posenc.positions import Positions
from posenc.terms import DenseBias, DistanceTable, Term

# k - q of pairs: whole where tokens are counted, fractional where they are somewhere in time.
Distances = Int[Tensor, "n"] | Float64[Tensor, "n"]
# Distances of which a table may be longer than what is attended to: 8 MiB of float64 for a head.
_MANY = 2**20


class DistanceBias(Encoding):
    """Base of encodings that add one number per head and distance to the score.

    A member says which in `biases` and, by its paper, in `reference_biases`. Whole positions take a
    table by distance. Of fractional ones, such as time stamps, no table holds all distances, and of
    seconds since 1970 one would hold far more than there are pairs: there each pair has its number,
    in quadratic memory.
    """

    family = "bias"
    sizes = ("heads",)
    tags = Tags(translation_invariant=True, norm_preserving=True, needs_extent=True)
    # The farthest distances into past and future that differ; None: all do.
    reach: tuple[int, int] | None = None
    # Whether distances are counted, so that a fraction of one has no bias.
    counted: bool = False

    def __init__(self, heads: int) -> None:
        super().__init__()
        whole(type(self).__name__, heads=heads)
        self.heads = heads

    def biases(self, distance: Distances, dtype: torch.dtype) -> Float[Tensor, "h n"]:
        """What joins the score of each head at these distances k - q."""
        raise NotImplementedError

    def reference_biases(self, at: Pairs) -> Float64[Tensor, "b h tq tk"]:
        """The paper's formula for what joins each score, slow and plain, in float64."""
        raise NotImplementedError

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        q, k = positions.one_axis(type(self).__name__)
        if not self.counted and (q.is_floating_point() or k.is_floating_point()):
            return (self._by_pair(positions, dtype),)
        past, future = self.reach or reach_for(self, positions)
        # A graph serves any length, so that none is chosen for it.
        if past + future > _MANY and not self.counted and not torch.compiler.is_compiling():
            pairs = positions.batch * positions.q_len * positions.k_len
            if past + future > pairs:
                return (self._by_pair(positions, dtype),)
        values = self.table(past, future, dtype, positions.device)
        return (DistanceTable(values, zero=past, saturates=self.reach is not None),)

    def table(
        self, past: int, future: int, dtype: torch.dtype, device: torch.device
    ) -> Float[Tensor, "h n"]:
        """`biases` of all distances from -past to future; members keep what settings alone say."""
        kind = torch.int64 if self.counted else torch.float64
        return self.biases(torch.arange(-past, future + 1, dtype=kind, device=device), dtype)

    def _by_pair(self, positions: Positions, dtype: torch.dtype) -> DenseBias:
        steps = positions.distance()[:, 0]
        values = self.biases(steps.flatten(), dtype)
        return DenseBias(values.unflatten(-1, steps.shape).transpose(0, 1))

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        return super().reference_scores(q, k, at) + self.reference_biases(at)
