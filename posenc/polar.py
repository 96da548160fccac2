"""Queries and keys as magnitudes at angles of their positions: what Polar does to tensors.

softplus(q[c]) softplus(k[c]) cos(a - b) is the product of two vectors of the plane, one at the
angle a and one at b, so that content of d dimensions is a plain product of 2d (Gopalakrishnan et
al. 2025, arXiv:2509.10534, section 3).
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from posenc.rotation import CosSin
from posenc.terms import Polar


def in_pairs(
    q: Float[Tensor, "b h tq d"], k: Float[Tensor, "b g tk d"], term: Polar
) -> tuple[Float[Tensor, "b h tq e"], Float[Tensor, "b g tk e"]]:
    """Magnitudes beside zeros, pairs (c, c + d) that are yet to turn; e = 2d."""
    mu_q, mu_k = magnitude(q), magnitude(k)
    return F.pad(mu_q, (0, q.shape[-1])), F.pad(mu_k, (0, k.shape[-1]))


def lifted(
    q: Float[Tensor, "b h tq d"],
    k: Float[Tensor, "b g tk d"],
    q_waves: CosSin,
    k_waves: CosSin | None,
) -> tuple[Float[Tensor, "b h tq e"], Float[Tensor, "b g tk e"]]:
    """Magnitudes at their angles, (mu cos, mu sin), each rounded once to its own dtype; e = 2d."""
    assert k_waves is not None
    return _at_angles(q, q_waves), _at_angles(k, k_waves)


def magnitude(x: Float[Tensor, "b h t d"]) -> Float[Tensor, "b h t d"]:
    """softplus(x)."""
    # torch.softplus is x itself beyond 20, which float64 tells apart.
    return torch.logaddexp(x, x.new_zeros(()))


def _at_angles(x: Tensor, waves: CosSin) -> Tensor:
    cos, sin = waves
    mu = magnitude(x.to(cos.dtype))
    return torch.cat((mu * cos, mu * sin), dim=-1).to(x.dtype)
