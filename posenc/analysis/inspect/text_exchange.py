"""What stays of the scores when the text is exchanged: the share of position, of any model.

Letters: h heads, t tokens, w texts.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.analysis.inspect.distance_fit import distance_fit
from posenc.errors import ShapeError


@dataclass(frozen=True, eq=False)
class Stays:
    """Shares of the variance of the scores along rows, of each head; they add up to 1.

    distance  the same for whatever text, and told by the distance alone
    place     the same for whatever text, and not told by it: sinks, absolute positions
    content   differs from text to text: content, and what content and position do together

    All are NaN where the scores of a row do not differ.
    """

    distance: Float[Tensor, "h"]
    place: Float[Tensor, "h"]
    content: Float[Tensor, "h"]


class TextExchange:
    """Scores of several texts of one length, added one by one; one matrix per head is held.

        x[w, i, j] = score less the mean of its row over the visible keys
        content    = mean over i, j of the variance of x over w, unbiased
        position   = mean of the squared mean over w of x, less content / w

    position is split by `distance_fit`, which finds up to 2/t of any text in distances. The texts
    are to be one text, turned round: then every token comes to several places, and neighbours stay
    neighbours.
    """

    def __init__(self) -> None:
        self.count = 0

    def add(self, scores: Float[Tensor, "h t t"]) -> None:
        """Scores of one more text, -inf where not visible, the same in all heads and texts."""
        visible = scores[0] > -torch.inf
        if self.count == 0:
            self.visible = visible
            self.total = torch.zeros_like(scores, dtype=torch.float64)
            self.squares = scores.new_zeros(scores.shape[0], dtype=torch.float64)
        x = _centred(scores, self.visible)
        self.total += x
        self.squares += x.square().sum(dim=(1, 2))
        self.count += 1

    def result(self) -> Stays:
        """Raises ShapeError for less than two texts."""
        if self.count < 2:
            raise ShapeError(f"TextExchange: {self.count} texts; two or more can be exchanged")
        pairs = int(self.visible.sum())
        mean = self.total / self.count
        between = mean.square().sum(dim=(1, 2))
        content = (self.squares / self.count - between) * self.count / (self.count - 1) / pairs
        position = (between / pairs - content / self.count).clamp(min=0.0)
        distance = (distance_fit(mean, self.visible) / pairs).minimum(position)
        whole = position + content
        whole = whole.where(whole > 0, torch.nan)
        return Stays(distance / whole, (position - distance) / whole, content / whole)


def _centred(scores: Tensor, visible: Bool[Tensor, "t t"]) -> Float[Tensor, "h t t"]:
    x = scores.double().masked_fill(~visible, 0.0)
    mean = x.sum(dim=-1, keepdim=True) / visible.sum(dim=-1, keepdim=True).clamp(min=1)
    return (x - mean).masked_fill(~visible, 0.0)
