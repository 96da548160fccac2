"""One row per position, or per distance: what an encoding says, content aside."""

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.analysis.probe_context import device_of, lowered_alone
from posenc.encoding import Encoding
from posenc.encodings._merge import Absolute
from posenc.equation import distance_bias, rows_of
from posenc.errors import UnsupportedError
from posenc.lowering import embeds_only
from posenc.positions import Positions
from posenc.rotation import rotate_pairs
from posenc.terms import (
    DenseBias,
    DistanceTable,
    GatherTable,
    Rotate,
    Slope,
    Term,
    ValueTable,
    Zones,
)


def position_table(
    encoding: Encoding, positions: Positions | Tensor | int
) -> Float64[Tensor, "t c"]:
    """The vector of each position: what an absolute encoding adds, or where a rotary one turns 1.

    Of an absolute encoding, row p is what `embed` merges at position p. Of a rotary one it is a
    key of ones as it stands after turning, all heads side by side: (cos a - sin a, cos a + sin a)
    in each turned pair. Positions are those of one row; a number stands for 0, 1, 2, ...

    Raises UnsupportedError for an encoding that acts on distances only: see `distance_table`.
    """
    if isinstance(encoding, Absolute):
        return encoding.vectors(_at(encoding, positions)).detach()[0].double()
    if embeds_only(encoding):
        at = _at(encoding, positions)
        zeros = torch.zeros(1, at.q_len, encoding.model_dim or 1, dtype=torch.float64)
        return encoding.embed(zeros.to(at.device), at).detach()[0].double()
    at = _at(encoding, positions, causal=True)
    lowered = lowered_alone(encoding, at)
    for term in lowered.terms:
        if isinstance(term, Rotate) and term.k_angle is not None:
            return _turned_ones(term, term.k_angle, term.k_log_scale)
    raise UnsupportedError(
        f"position_table({encoding!r}): it gives no vector to a position of its own; "
        "distance_table has what it says of distances"
    )


def distance_table(encoding: Encoding, length: int) -> Float64[Tensor, "t c"]:
    """What attention is told of a key n tokens back, row n, by a relative encoding.

    cos and sin of the relative angles, the biases of all heads, and the vectors that tables add to
    keys and values, side by side; what depends on content only is left out. A causal query at
    position length - 1 reads the keys.

    Raises UnsupportedError where nothing is left.
    """
    at = Positions.build(1, length, causal=True, device=device_of(encoding))
    if embeds_only(encoding):
        raise UnsupportedError(
            f"distance_table({encoding!r}): it changes embeddings, by position_table"
        )
    lowered = lowered_alone(encoding, at)
    parts = [part for term in lowered.terms for part in _told(term, at)]
    if not parts:
        raise UnsupportedError(
            f"distance_table({encoding!r}): it says nothing of a distance but what depends on "
            "the content or is the same for all"
        )
    columns = [part.detach().double().reshape(-1, length) for part in parts]
    return torch.cat(columns).T.flip(0)


def _told(term: Term, at: Positions) -> list[Tensor]:
    """What a term says of every key to the only query: tensors (..., tk)."""
    if isinstance(term, Rotate):
        return _relative(term)
    if isinstance(term, Zones):
        near = -at.order_distance()[0, 0, 0] < term.width
        pairs = zip(_relative(term.near), _relative(term.far), strict=True)
        return [torch.where(near, close, far) for close, far in pairs]
    if isinstance(term, (DistanceTable, Slope)):
        return [distance_bias(term, at, torch.float64)]
    if isinstance(term, (GatherTable, ValueTable)):
        return [term.weight[:, rows_of(term, at)[0, 0, 0]].mT]
    if isinstance(term, DenseBias):
        return [term.values]
    return []


def _relative(term: Rotate) -> list[Tensor]:
    """cos and sin between the only query and every key, times the factors: (1, h|1, r, tk)."""
    assert term.k_angle is not None
    back = term.q_angle - term.k_angle
    size = torch.full_like(back, term.gain**2)
    if term.q_log_scale is not None and term.k_log_scale is not None:
        size = size * (term.q_log_scale + term.k_log_scale).exp()
    return [(back.cos() * size).mT, (back.sin() * size).mT]


def _turned_ones(
    term: Rotate, angle: Tensor, log_scale: Tensor | None
) -> Float64[Tensor, "t columns"]:
    size = term.gain if log_scale is None else term.gain * log_scale.exp()
    ones = angle.new_ones(1, angle.shape[1], angle.shape[2], 2 * angle.shape[3])
    turned = rotate_pairs(ones, angle.cos() * size, angle.sin() * size, term.layout)
    return turned[0].transpose(0, 1).flatten(1).detach()


def _at(
    encoding: Encoding, positions: Positions | Tensor | int, *, causal: bool = False
) -> Positions:
    if isinstance(positions, Positions):
        return positions
    if isinstance(positions, int):
        return Positions.build(positions, causal=causal, device=device_of(encoding))
    return Positions.build(ids=positions, causal=causal)
