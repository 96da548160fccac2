"""What position alone adds to the score of two tokens, against their distance."""

from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from posenc.analysis.decompose import decompose
from posenc.analysis.probe_context import device_of, lowered_alone, sizes_for
from posenc.encoding import Encoding
from posenc.errors import ShapeError, UnsupportedError
from posenc.lowering import embeds_only
from posenc.positions import Positions, Tokens
from posenc.terms import DenseBias, DistanceTable, GatherTable, Offset, Slope

ADDING = (DistanceTable, Slope, GatherTable, Offset, DenseBias)


@dataclass(frozen=True, eq=False)
class Bias:
    """What is added at each distance k - q, per head; nan where a key is not visible."""

    distance: Int64[Tensor, "n"]
    values: Float64[Tensor, "h n"]


def position_bias(encoding: Encoding, length: int) -> Bias:
    """What tables, slopes and offsets add to the score, at distances up to length - 1.

    The query is at position length - 1, with as many keys after it as before, or with none where
    the encoding is causal only. It is the sum of the parts of `posenc.decompose` that a position
    has a share in, but for rotation, with q = k = ones and scale 1: tables that meet queries or
    keys give the sum of their rows. One head stands for all where the encoding does not tell.

    Raises UnsupportedError for an encoding without such terms, ShapeError for length < 1.
    """
    if length < 1:
        raise ShapeError(f"position_bias(length={length}): at least one token is needed")
    if embeds_only(encoding):
        raise _nothing(encoding)
    device, causal = device_of(encoding), encoding.tags.causal_only
    keys = torch.arange(length if causal else 2 * length - 1, device=device)
    query = keys[length - 1 : length]
    at = Positions(Tokens(query, query), Tokens(keys), causal, unit_step=True)
    lowered = lowered_alone(encoding, at)
    if not any(isinstance(term, ADDING) for term in lowered.terms):
        raise _nothing(encoding)
    size = encoding.heads or 1, sizes_for(encoding).head_dim
    q = torch.ones(1, size[0], 1, size[1], dtype=torch.float64, device=device)
    k = q.expand(-1, -1, len(keys), -1)
    parts = decompose(q, k, lowered, scale=1.0)
    added = parts.token_position + parts.position_token + parts.position_position
    values = added.where(parts.visible, torch.nan)[0, :, 0]
    return Bias(at.distance()[0, 0, 0], values.detach().double())


def _nothing(encoding: Encoding) -> UnsupportedError:
    return UnsupportedError(
        f"position_bias({encoding!r}): it adds nothing to the score; see equal_scores for what it "
        "does to it"
    )
