"""Queries and keys multiplied by matrices of their tokens: what a Transform asks for.

It is done around a backend, so that each takes it: a backend is given what comes out.
Letters: b batch, h heads, t tokens, d head dimension, n blocks of e dimensions.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import ShapeError
from posenc.lowering import Lowered
from posenc.normal_form.form import rotations_of
from posenc.terms import Term, Transform
from posenc.torch_modes import arithmetic, named

# A row for each token (..., t, m), how many are new: the rows of the new ones.
Own = Callable[[Tensor, int], Tensor]


def multiplied(x: Float[Tensor, "b h t d"], matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """The blocks of each vector multiplied by matrices (1|b, 1|h, 1|t, n, e, e), the rest as it is.

    In this dtype. Raises ShapeError for matrices of other rows, heads, tokens or dimensions.
    """
    n, e = matrices.shape[-3], matrices.shape[-1]
    # By !=, for torch 2.7's dynamo does not find a symbolic size in a tuple.
    sizes = zip(matrices.shape[:3], x.shape[:3], strict=True)
    if n * e > x.shape[-1] or any(own != 1 and own != size for own, size in sizes):
        raise ShapeError(
            f"Transform has matrices of shape {tuple(matrices.shape)}, (batch, heads, tokens, "
            f"blocks, e, e), but the tensor has shape {tuple(x.shape)}"
        )
    x, matrices = x.to(dtype), matrices.to(dtype)
    blocks = x[..., : n * e].unflatten(-1, (n, e))
    if matrices.shape[2] == 1:
        # One product of all tokens, which ONNX has too: its Einsum takes no size of 1 for all.
        blocks = (blocks.transpose(2, 3) @ matrices[:, :, 0].mT).transpose(2, 3)
    else:
        blocks = torch.einsum("bhtnoi,bhtni->bhtno", matrices, blocks)
    return torch.cat((blocks.flatten(-2), x[..., n * e :]), dim=-1)


def multiplied_both(
    q: Tensor, k: Tensor, term: Transform, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """q and k multiplied: the specification of Transform.

    Where every query head has matrices of its own for keys, k has as many heads as q then.
    """
    q = multiplied(q, term.q, dtype)
    if term.k is None:
        return q, k.to(dtype)
    if term.k.shape[1] > k.shape[1]:
        k = _for_heads(k, q.shape[1])
    return q, multiplied(k, term.k, dtype)


def transformed(
    q: Tensor, k: Tensor, terms: Sequence[Term], dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """q and k in this dtype, multiplied where a Transform is among the terms."""
    for term in terms:
        if isinstance(term, Transform):
            return multiplied_both(q, k, term, dtype)
    return q.to(dtype), k.to(dtype)


def multiplied_keys(k: Tensor, term: Transform | None, own: Own) -> Tensor:
    """New keys as a cache keeps them, in their dtype; as they are where they come multiplied.

    own  takes what belongs to the new tokens, which k are, out of what belongs to all
    """
    if term is None or term.k is None:
        return k
    matrices, new = term.k, k.shape[2]
    if matrices.shape[2] != 1 and matrices.shape[2] != new:
        matrices = own(matrices.flatten(-3), new).unflatten(-1, matrices.shape[-3:])
    return multiplied(k, matrices, arithmetic(k)).to(k.dtype)


def carried_out(
    q: Tensor, k: Tensor, v: Tensor, lowered: Lowered
) -> tuple[Tensor, Tensor, Tensor, Lowered]:
    """q, k and v, with as many heads as k, after the Transform, and the terms without it."""
    term = lowered.form.transform
    if term is None:
        return q, k, v, lowered
    new_q, new_k = multiplied_both(q, k, term, arithmetic(q, k))
    turns = (term, *rotations_of(lowered.form.rotation))
    told = [x for turn in turns for x in named(turn).values() if isinstance(x, Tensor)]
    # What learns does so from sums over tokens, in which the rounding of 16 bits adds up: matrices,
    # and the angles behind them.
    if not (torch.is_grad_enabled() and any(x.requires_grad for x in told)):
        new_q, new_k = new_q.to(q.dtype), new_k.to(k.dtype)
    return new_q, new_k, _for_heads(v, new_k.shape[1]), lowered.after_transform


def before(run: Any, call: Any) -> Any:
    """What `run` gives for this call after its Transform."""
    q, k, v, lowered = carried_out(call.q, call.k, call.v, call.lowered)
    return run(replace(call, q=q, k=k, v=v, lowered=lowered))


def _for_heads(x: Tensor, heads: int) -> Tensor:
    """x (b, g, t, d) with a copy for each head that shares it."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)
