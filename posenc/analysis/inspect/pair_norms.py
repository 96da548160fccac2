"""Which rotary pairs a layer uses: how long queries and keys are in each.

Letters: b texts, h query heads, g key heads, t tokens, d head dimension, r pairs.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.equation import group
from posenc.terms import Rotate


@dataclass(frozen=True, eq=False)
class PairNorms:
    """Means over texts, tokens and heads, by pair, before rotation.

    q, k        2-norm of queries and of keys in the pair
    product     mean over query heads of the two norms' product: what the pair can add to a score,
                before the scale
    wavelength  tokens in which the pair turns once; infinite for one that does not turn
    """

    q: Float[Tensor, "r"]
    k: Float[Tensor, "r"]
    product: Float[Tensor, "r"]
    wavelength: Float[Tensor, "r"]


def pair_norms(
    q: Float[Tensor, "b h t d"], k: Float[Tensor, "b g t d"], rotation: Rotate
) -> PairNorms:
    """Of q and k as they are before `rotation`, whose first two tokens are neighbours."""
    angle = rotation.q_angle
    step = (angle[0, 0, 1] - angle[0, 0, 0]).abs().double()
    of_q, of_k = (_norms(x, rotation, angle.shape[-1]) for x in (q, k))
    shared = group(of_k[None, :, None], of_q.shape[0])[0, :, 0]
    product = (of_q * shared).mean(dim=0)
    return PairNorms(of_q.mean(dim=0), of_k.mean(dim=0), product, 2 * math.pi / step)


def _norms(x: Tensor, rotation: Rotate, pairs: int) -> Float[Tensor, "h r"]:
    turned = x[..., rotation.start : rotation.start + 2 * pairs].double()
    shape = (2, pairs) if rotation.layout == "half" else (pairs, 2)
    apart = turned.unflatten(-1, shape)
    norms = torch.linalg.vector_norm(apart, dim=-2 if rotation.layout == "half" else -1)
    return norms.mean(dim=(0, 2))
