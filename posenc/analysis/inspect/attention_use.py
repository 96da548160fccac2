"""Where the heads of a layer look: how far, at the first tokens, at themselves, at the one before.

Letters: h heads, t tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.errors import ShapeError

# Of attention sinks (Xiao et al. 2023, arXiv:2309.17453), which take four.
FIRST = 4
MASS = 0.9


@dataclass(frozen=True, eq=False)
class AttentionUse:
    """Means over the queries behind the first token, which alone has no choice.

    mass      share of attention at each distance 0 .. t-1, to either side
    itself    share on the query's own token
    previous  share on the token before it
    next      share on the token behind it, over the queries that have one; 0 in causal layers
    first     share on the first FIRST tokens, over the queries behind them; NaN where none is
    distance_beyond_first   mean distance of the attention that is not on those; NaN likewise
    entropy   in nats, of the attention that tokens get

    Where a sink logit takes a part, shares are of all attention, but distances, the reach and the
    entropy are of what tokens get.
    """

    mass: Float[Tensor, "h t"]
    itself: Float[Tensor, "h"]
    previous: Float[Tensor, "h"]
    next: Float[Tensor, "h"]
    first: Float[Tensor, "h"]
    distance_beyond_first: Float[Tensor, "h"]
    entropy: Float[Tensor, "h"]

    @property
    def distance(self) -> Float[Tensor, "h"]:
        """Mean attended distance, in tokens."""
        at = torch.arange(self.mass.shape[1], dtype=self.mass.dtype)
        return self.mass @ at / self.mass.sum(dim=1)

    @property
    def reach(self) -> Int[Tensor, "h"]:
        """The distance within which MASS of the attention lies."""
        # Rounding of a sum of all shares must not lengthen the reach.
        enough = self.mass.cumsum(dim=1) >= MASS * self.mass.sum(dim=1, keepdim=True) - 1e-9
        return enough.int().argmax(dim=1)

    @classmethod
    def of(cls, weights: Float[Tensor, "h t t"]) -> "AttentionUse":
        """Of the weights of one text; each row adds up to 1, or to what a sink logit leaves.

        Raises ShapeError for less than two tokens.
        """
        t = weights.shape[-1]
        if t < 2:
            raise ShapeError(
                f"AttentionUse.of(weights {tuple(weights.shape)}): one token attends to itself; "
                "give two or more"
            )
        p = weights.double()
        at = torch.arange(t)
        apart = (at[:, None] - at[None, :]).abs()
        choosing = p[:, 1:]
        mass = p.new_zeros(p.shape[0], t)
        flat = apart[1:].flatten().expand(p.shape[0], -1)
        mass.scatter_add_(1, flat, choosing.flatten(1))
        behind, beyond = p[:, FIRST:, :FIRST], p[:, FIRST:, FIRST:]
        reached = (beyond * apart[FIRST:, FIRST:]).sum(dim=(1, 2))
        return cls(
            mass / (t - 1),
            p.diagonal(dim1=1, dim2=2)[:, 1:].mean(dim=1),
            p.diagonal(offset=-1, dim1=1, dim2=2).mean(dim=1),
            p.diagonal(offset=1, dim1=1, dim2=2)[:, 1:].mean(dim=1),
            behind.sum(dim=2).mean(dim=1),
            reached / beyond.sum(dim=(1, 2)),
            _entropy(choosing).mean(dim=1),
        )

    @classmethod
    def mean(cls, uses: Sequence["AttentionUse"]) -> "AttentionUse":
        """Of texts of the same length."""
        names = [field.name for field in fields(cls)]
        return cls(*(torch.stack([getattr(use, name) for use in uses]).mean(0) for name in names))


def _entropy(p: Float[Tensor, "h n t"]) -> Float[Tensor, "h n"]:
    """Of each row, as parts of its sum; 0 for a row that gives tokens nothing."""
    p = p / p.sum(dim=2, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
    return -torch.xlogy(p, p).sum(dim=2)
