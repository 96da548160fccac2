"""merge: attention over all keys, from what it gave over parts of them.

Letters: b batch, h query heads, tq queries, d_v dimension of values.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import ShapeError
from posenc.torch_modes import arithmetic


def merge(
    outputs: Sequence[Float[Tensor, "b h tq d_v"]], lses: Sequence[Float[Tensor, "b h tq"]]
) -> tuple[Float[Tensor, "b h tq d_v"], Float[Tensor, "b h tq"]]:
    """Output and log of the sum of exp(score), of attention over all keys.

        lse    = log of the sum over parts of exp(lse[part])
        output = sum over parts of exp(lse[part] - lse) * output[part]

    outputs, lses  what `attend(..., return_lse=True)` gave for the same queries and each part of
                   the keys; no key may be in two parts, nor may SinkLogits: give them to one

    It is exact for every term whose score reads its own query and key alone, and for values that
    terms add: the output is linear in the weights. CoPE's counts go over the keys of all parts.
    After dropout it is what the same pairs, dropped from the whole, would give. Both results are in
    at least float32; rows that saw nothing in any part are zero, and -inf.

    Raises ShapeError for no parts, and for parts of different shapes.

    Source: the rescaling of FlashAttention, arXiv:2205.14135, section 3.1, and of Ring Attention,
    arXiv:2310.01889.

    Example:

        q, (k, v) = torch.randn(1, 8, 16, 64), torch.randn(2, 1, 8, 256, 64)
        parts = [posenc.attend(q, k[:, :, i::2], v[:, :, i::2], return_lse=True) for i in range(2)]
        out, lse = posenc.merge(*zip(*parts))
    """
    outputs, lses = list(outputs), list(lses)
    alike = {x.shape for x in outputs}, {x.shape for x in lses}
    fit = len(outputs) == len(lses) and len(alike[0]) == len(alike[1]) == 1
    if not fit or outputs[0].shape[:-1] != lses[0].shape:
        shapes = [tuple(x.shape) for x in outputs], [tuple(x.shape) for x in lses]
        raise ShapeError(
            f"merge(outputs, lses) of shapes {shapes[0]} and {shapes[1]}: give as many (b, h, tq, "
            "d_v) as (b, h, tq), one or more, of the same queries"
        )
    dtype = arithmetic(*outputs, *lses)
    parts = torch.stack([lse.to(dtype) for lse in lses])
    empty = (parts == -torch.inf).all(0)
    # Of a row that saw nothing the sum is put in by hand, for its gradient is none.
    lse = parts.masked_fill(empty, 0.0).logsumexp(0)
    weights = (parts - lse).exp()
    out = torch.zeros((), dtype=dtype, device=lse.device)
    for weight, part in zip(weights, outputs, strict=True):
        out = out + weight[..., None] * part.to(dtype)
    return out.masked_fill(empty[..., None], 0.0), lse.masked_fill(empty, -torch.inf)
