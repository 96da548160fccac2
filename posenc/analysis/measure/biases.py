"""What position alone adds to the score of two tokens, and whom it hides from whom."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from posenc.analysis.decompose import decompose
from posenc.analysis.probe_context import (
    context_of_one_token,
    device_of,
    lowered_alone,
    sizes_for,
)
from posenc.encoding import Encoding
from posenc.equation import mask_rules
from posenc.errors import SettingError, ShapeError, UnsupportedError
from posenc.lowering import Lowerable, embeds_only, flatten, lower
from posenc.positions import Positions, Tokens
from posenc.terms import DenseBias, DistanceTable, GatherTable, GridTable, Network, Offset, Slope

ADDING = (DistanceTable, Slope, GatherTable, Network, GridTable, Offset, DenseBias)


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

        position_bias(pe.ALiBi(1), 3).values   # [[-2, -1, 0, -1, -2]] / 256

    Raises UnsupportedError for an encoding without such terms, ShapeError for length < 1.
    """
    if length < 1:
        raise ShapeError(f"position_bias(length={length}): at least one token is needed")
    device, causal = device_of(encoding), encoding.tags.causal_only
    keys = torch.arange(length if causal else 2 * length - 1, device=device)
    query = keys[length - 1 : length]
    positions = Positions(Tokens(query, query), Tokens(keys), causal, unit_step=True)
    lowered = None if embeds_only(encoding) else lowered_alone(encoding, positions)
    if lowered is None or not any(isinstance(term, ADDING) for term in lowered.terms):
        raise UnsupportedError(
            f"position_bias({encoding!r}): it adds nothing to the score; see equal_scores for what "
            "it does to it"
        )
    heads, width = encoding.heads or 1, sizes_for(encoding).head_dim
    q = torch.ones(1, heads, 1, width, dtype=torch.float64, device=device)
    parts = decompose(q, q.expand(-1, -1, len(keys), -1), lowered, scale=1.0)
    added = parts.token_position + parts.position_token + parts.position_position
    values = added.where(parts.visible, torch.nan)[0, :, 0]
    return Bias(positions.distance()[0, 0, 0], values.detach().double())


def visibility(
    encoding: Lowerable, length: int, *, causal: bool = True
) -> Bool[Tensor, "length length"]:
    """Whether query i, a row, sees key j, by the masks of an encoding or a list of them.

        visibility([pe.SlidingWindow(4), pe.Sinks(1)], 8)[7]   # keys 0 and 4 to 7

    Encodings that only change embeddings hide nothing. Raises what `posenc.lower` raises.
    """
    whole = isinstance(encoding, Encoding)
    parts = [part for part in flatten(encoding) if not embeds_only(part)]
    device = device_of(encoding) if whole else None
    positions = Positions.build(length, causal=causal, device=device)
    context = context_of_one_token(encoding, length) if whole and parts else None
    lowered = lower(parts, positions, context=context, dtype=torch.float64)
    visible = lowered.positions.visible(mask_rules(lowered.terms))
    if visible is None:
        return torch.ones(length, length, dtype=torch.bool, device=device)
    return visible[0, 0].expand(length, length)


def receptive_field(visible: Bool[Tensor, "t t"], layers: int) -> Int64[Tensor, "t t"]:
    """After how many layers token j first reaches query i: 1 .. layers, 0 where it does not.

    A layer passes on what it sees, and by the residual connection itself. A window of w tokens
    reaches w - 1 farther back with each layer. Raises SettingError for layers < 1.

        receptive_field(visibility(pe.SlidingWindow(2), 4), 2)[3]   # [0, 2, 1, 1]

    Source: Beltagy et al. 2020, arXiv:2004.05150, section 3.1, for windows.
    """
    if layers < 1:
        raise SettingError(f"receptive_field(layers={layers}): at least one layer is needed")
    step = (visible | torch.eye(len(visible), dtype=torch.bool, device=visible.device)).double()
    reached, needed = step, step.long()
    for layer in range(2, layers + 1):
        reached = (step @ reached > 0).double()
        needed = torch.where((needed == 0) & (reached > 0), layer, needed)
    return needed
