"""What `decompose` returns: the parts of the scores, and two ways to look at them.

Letters: b batch, h query heads, tq queries, tk keys.
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.errors import ShapeError, UnsupportedError


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Five parts of the scores, which add up to them; each is 0 where a pair is not visible.

    The first word of a name is the query's side, the second the key's. `visible` is False where
    the score is -inf.
    """

    token_token: Float[Tensor, "b h tq tk"]
    token_position: Float[Tensor, "b h tq tk"]
    position_token: Float[Tensor, "b h tq tk"]
    position_position: Float[Tensor, "b h tq tk"]
    interaction: Float[Tensor, "b h tq tk"]
    visible: Bool[Tensor, "b h tq tk"]

    def parts(self) -> dict[str, Float[Tensor, "b h tq tk"]]:
        """The five parts by name, in the order of the fields."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "visible"}

    def total(self) -> Float[Tensor, "b h tq tk"]:
        """The sum of the parts, -inf where not visible: what `posenc.scores` gives."""
        return sum(self.parts().values(), start=torch.zeros_like(self.token_token)).masked_fill(
            ~self.visible, -torch.inf
        )

    def mean(self) -> dict[str, Float[Tensor, "h tq tk"]]:
        """Each part by name, averaged over the rows of the batch in which the pair is visible.

        NaN where it is visible in none, which a plot leaves blank.
        """
        count = self.visible.sum(dim=0)
        return {
            name: part.sum(dim=0) / count.where(count > 0, torch.nan)
            for name, part in self.parts().items()
        }

    def share(self) -> dict[str, Float[Tensor, "h"]]:
        """How much of the variation that softmax sees comes from each part, by name, per head.

            share[part] = spread[part] / sum of spread over the five parts
            spread[part] = sum over rows of the variance of the part over the row's visible keys

        A row is one query of one batch entry. What is the same for all keys of a row has no spread,
        for softmax does not see it. Shares add up to 1, but parts may cancel or reinforce each
        other: spreads do not add up to the spread of the score. A head whose five parts are all
        constant along their rows has shares of 0.
        """
        spread = {name: self._spread(part) for name, part in self.parts().items()}
        whole = sum(spread.values(), start=torch.zeros_like(spread["interaction"]))
        return {name: value / whole.where(whole > 0, 1.0) for name, value in spread.items()}

    def _spread(self, part: Float[Tensor, "b h tq tk"]) -> Float[Tensor, "h"]:
        seen = self.visible.sum(dim=-1, keepdim=True).clamp(min=1)
        centred = (part - part.sum(dim=-1, keepdim=True) / seen).masked_fill(~self.visible, 0.0)
        return (centred.square() / seen).sum(dim=(0, 2, 3))


def check_total(parts: Decomposition, scores: Tensor) -> None:
    """Raise UnsupportedError where the parts do not add up to the scores of the layer."""
    if scores.shape != parts.visible.shape:
        raise ShapeError(
            f"decompose(scores=...): scores have shape {tuple(scores.shape)}, the parts "
            f"{tuple(parts.visible.shape)}"
        )
    seen = parts.visible & (scores > torch.finfo(scores.dtype).min / 2)
    wanted = scores.masked_fill(~seen, 0.0).double()
    off = (parts.total().double().masked_fill(~seen, 0.0) - wanted).abs().max().item()
    dtypes = (scores.dtype, parts.token_token.dtype)
    largest = max(wanted.abs().max().item(), 1.0)
    allowed = 1e3 * max(torch.finfo(dtype).eps for dtype in dtypes) * largest
    if not off <= allowed:
        raise UnsupportedError(
            f"decompose(scores=...): the parts add up to other scores, off by {off:.3g} where at "
            f"most {allowed:.3g} is rounding: the layer does more than is given. Give norm=, b_q= "
            "and b_k=, add segment embeddings to x, and give the scale and positions of the layer"
        )
