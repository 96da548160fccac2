"""Scores split into content, distance, and what both do together.

Letters: h query heads, g key heads, t tokens, d head dimension.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.attention_parts import scores
from posenc.errors import UnsupportedError
from posenc.lowering import Lowerable
from posenc.positions import Positions, Tokens

# So many queries and keys of the text are paired.
SAMPLE = 64


@dataclass(frozen=True, eq=False)
class ScoreSplit:
    """Shares of the variance of the scores, of each head; they add up to 1.

    All are NaN where scores do not differ.
    """

    content: Float[Tensor, "h"]
    distance: Float[Tensor, "h"]
    interaction: Float[Tensor, "h"]


def score_split(
    q: Float[Tensor, "h t d"],
    k: Float[Tensor, "g t d"],
    encoding: Lowerable,
    distances: Sequence[int],
    *,
    scale: float | None = None,
) -> ScoreSplit:
    """The analysis of variance of scores in which every pair of tokens meets at every distance.

        F[i, j, n] = score of query i and key j at distance n, less its mean over j and n
        content    = variance over i, j of the mean of F over n
        distance   = variance over n of the mean of F over i, j
        interaction = the rest: whether i and j match depends on how far they are apart

    q and k are those before rotation. The tokens of a text stand at one distance each, and so do
    not tell these apart; here the encoding is asked for all. Distances are k - q: those behind a
    query are negative, and those that a mask hides are left out. SAMPLE tokens, evenly spaced, are
    paired. Raises UnsupportedError for an encoding that asks for causal order, or where all is
    hidden.
    """
    chosen = _evenly(q.shape[1])
    q, k = q[None, :, chosen], k[None, :, chosen]
    tokens = len(chosen)
    total = torch.zeros(q.shape[1], tokens, tokens, dtype=torch.float64)
    squares = torch.zeros(q.shape[1], dtype=torch.float64)
    by_distance = []
    extent = max(map(abs, distances)) + 1
    for distance in distances:
        # Positions are not below zero.
        query = torch.full((tokens,), max(-distance, 0))
        sides = Tokens(query), Tokens(query + distance)
        at = Positions(*sides, causal=False, extent=extent)
        found = scores(q, k, encoding, positions=at, scale=scale)[0].double()
        if found.isinf().any():
            continue
        total += found
        squares += found.square().mean(dim=(1, 2))
        by_distance.append(found.mean(dim=(1, 2)))
    if not by_distance:
        raise UnsupportedError(
            f"score_split({encoding!r}): it hides all {len(distances)} distances from "
            f"{min(distances)} to {max(distances)}"
        )
    count = len(by_distance)
    mean = total / count
    rows = mean.mean(dim=2, keepdim=True)
    whole = squares / count - rows.square().mean(dim=(1, 2))
    content = (mean - rows).square().mean(dim=(1, 2))
    distance = torch.stack(by_distance).var(dim=0, correction=0)
    # What is left of equal scores is rounding.
    whole = whole.where(whole > 1e-12 * squares / count, torch.nan)
    interaction = (whole - content - distance).clamp(min=0.0)
    return ScoreSplit(content / whole, distance / whole, interaction / whole)


def _evenly(t: int) -> Tensor:
    """SAMPLE places among t, each in the middle of its share, so that sinks are not among them."""
    count = min(t, SAMPLE)
    return ((torch.arange(count) + 0.5) * t / count).long()
