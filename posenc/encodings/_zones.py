"""What encodings of two zones share: RoPE as it is near by, and at other coordinates far away."""

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Keys, Queries, Scores
from posenc.encodings._turning import angle, geometric, rotation, turned_dot
from posenc.positions import Positions
from posenc.terms import Layout, Rotate, Zones


def zones(
    positions: Positions,
    far: tuple[Tensor, Tensor],
    width: int,
    *,
    dim: int,
    base: float,
    layout: Layout,
) -> Zones:
    """RoPE where the order distance is under width; beyond, RoPE with q and k at coordinates `far`.

    far holds (t,) or (b, t) for the queries, and for the keys.
    """
    frequencies = geometric(base, dim, positions.device)
    near = rotation(positions, lambda at: angle(at, frequencies), layout)
    far_q, far_k = (angle(at, frequencies) for at in far)
    return Zones(near, Rotate(far_q, far_k, layout), width)


def rope_at(
    q: Queries, k: Keys, back: Float64[Tensor, "b 1 tq tk"], *, base: float, layout: Layout
) -> Scores:
    """q . k under RoPE, each key `back` tokens behind its query: for references."""
    d = q.shape[-1]
    angles = torch.stack([back * base ** (-2 * i / d) for i in range(d // 2)], dim=-1)
    return turned_dot(q, k, angles, layout)
