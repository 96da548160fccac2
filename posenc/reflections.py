"""Products of Householder-like matrices, H[s] = I - beta[s] w[s] w[s]^T, without making any.

A product of many is I minus as many outer products (the UT transform: Joffrain et al. 2006, ACM
TOMS 32(2); for attention Yang et al. 2025, arXiv:2505.16381, section 3):

    H[e] .. H[s] = I - sum over a, b = s .. e of w[a] T[a, b] w[b]^T
    T            = (I + strictly lower part of diag(beta) W W^T)^-1 diag(beta)

T is lower triangular, so that the same T serves every s and e. Letters: b batch, h query heads,
g heads of keys and of w, n tokens.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.terms import Householder


def transform(w: Float[Tensor, "*b n d"], beta: Float[Tensor, "*b n"]) -> Float[Tensor, "*b n n"]:
    """T of the sentence above."""
    lower = (beta[..., None] * (w @ w.mT)).tril(-1)
    # The diagonal is taken for ones.
    return torch.linalg.solve_triangular(
        lower, torch.diag_embed(beta), upper=False, unitriangular=True
    )


def at_once(
    q: Float[Tensor, "b h m d"],
    k: Float[Tensor, "b g n d"],
    w: Float[Tensor, "#b g n d"],
    beta: Float[Tensor, "#b g n"],
) -> Float[Tensor, "b h m n"]:
    """q . H .. H k of every pair, by one system of all tokens: for graphs, which have no loop."""
    groups = k.shape[1]
    q = q.unflatten(1, (groups, -1))
    k, w = k[:, :, None], w[:, :, None]
    # Those of the tokens up to each query, times those of the tokens after each key.
    reads = (q @ w.mT).tril(k.shape[3] - q.shape[3])
    moves = transform(w, beta[:, :, None]) @ (w @ k.mT).tril(-1)
    return (q @ k.mT - reads @ moves).flatten(1, 2)


def by_head(
    term: Householder, k: Float[Tensor, "b g n d"], dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """k, w and beta in this dtype with as many heads each, those that share a head repeated."""
    heads = max(k.shape[1], term.w.shape[1])
    k, w, beta = (
        x.to(dtype).repeat_interleave(heads // x.shape[1], dim=1) if x.shape[1] < heads else x
        for x in (k, term.w, term.beta)
    )
    return k.to(dtype), w.to(dtype), beta.to(dtype)
