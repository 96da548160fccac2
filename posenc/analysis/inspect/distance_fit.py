"""How much of a matrix of scores one number for each distance explains.

Letters: h heads, t tokens.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def distance_fit(x: Float[Tensor, "h t t"], visible: Bool[Tensor, "t t"]) -> Float[Tensor, "h"]:
    """The sum of squares that distance explains.

        x[i, j] ~ r[i] + g[j - i],   least squares over visible pairs, g free

    x is centred along its rows, and 0 where not visible; softmax does not see r.
    """
    t = x.shape[-1]
    at = torch.arange(t)
    index = (at[None, :] - at[:, None] + t - 1).expand_as(x)
    # Which distances each query sees: with r taken out, the normal equations of g.
    sees = torch.zeros(t, 2 * t - 1, dtype=torch.float64).scatter(1, index[0], visible.double())
    seen = sees.sum(dim=0) > 0
    right = torch.zeros(x.shape[0], 2 * t - 1, dtype=torch.float64)
    right = right.scatter_add(1, index.flatten(1), x.double().flatten(1))[:, seen]
    sees = sees[:, seen]
    count = sees.sum(dim=1, keepdim=True).clamp(min=1)
    normal = torch.diag(sees.sum(dim=0)) - (sees / count).mT @ sees
    # A constant added to g changes nothing; the equations are made regular, and stay consistent.
    normal.diagonal().add_(1e-9 * normal.diagonal().mean())
    g = torch.linalg.solve(normal, right.mT).mT
    return (g * right).sum(dim=1)
