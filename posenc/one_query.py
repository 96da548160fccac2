"""One query that meets all its keys: by the C kernel, and by SDPA where there is none."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.functional import pad

from posenc.native import query
from posenc.torch_modes import FLOATS, arithmetic, autocasts, plain


def suits_one_query(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether this is one query, and `auto` takes for it what `one_query` takes."""
    if torch.compiler.is_compiling() or not q.ndim == k.ndim == v.ndim == 4:
        return False
    (b, h, queries, d), (rows, g, _, width) = q.shape, k.shape
    if queries != 1 or b != rows or d != width or v.shape[:3] != k.shape[:3]:
        return False
    if 0 in k.shape or 0 in v.shape or h % g:
        return False
    # Of other dtypes and devices nothing was measured.
    dtype = q.dtype
    if dtype not in FLOATS or k.dtype != dtype or v.dtype != dtype:
        return False
    if not (q.is_cpu and k.is_cpu and v.is_cpu) or autocasts("cpu"):
        return False
    learns = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    return not learns and plain(q, k, v)


def one_query(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    mask: Tensor | None = None,
    sink: Tensor | None = None,
) -> Tensor:
    """A query (b, h, 1, d) that meets all keys (b, g, tk, d).

    mask  (1|b, 1|h, 1, tk), numbers that are added, or booleans of which keys it sees
    sink  (1|h,), a logit beside those of the keys
    """
    b, h, _, d = q.shape
    g = k.shape[1]
    if unsupported_reason(q, k, v, mask, sink) is None:
        mask = None if mask is None else numbers(mask, arithmetic(q))
        sink = None if sink is None else sink.double().expand(h).contiguous()
        return query.attend(q, k, v, scale, mask, sink)
    if sink is not None:
        k, v, mask = _with_sink(k, v, mask, sink.to(arithmetic(q)))
    if h > g:
        # Query heads that share keys become queries of one head, so that no key is repeated.
        q = q.reshape(b, g, -1, d)
        if mask is not None:
            mask = mask.expand(-1, h, 1, -1).reshape(mask.shape[0], g, h // g, -1)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return out.view(b, h, 1, -1)


def unsupported_reason(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, sink: Tensor | None = None
) -> str | None:
    """Why the C kernel cannot take this query, so that SDPA does; None where it can."""
    if not query.suits(q):
        return str(query.LIBRARY)
    # Of what was learned and made any of these.
    tensors = q, k, v, mask, sink
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors):
        return "with a mask made ready, its kernel for one query has no gradient"
    return None


def numbers(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask of numbers, -inf where one of booleans is False."""
    if mask.dtype == dtype:
        return mask
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return mask.new_zeros(mask.shape, dtype=dtype).masked_fill_(~mask, -torch.inf)


def _with_sink(
    k: Tensor, v: Tensor, mask: Tensor | None, sink: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same with one key more, whose score is the sink and whose value is zero."""
    if mask is None:
        mask = sink.new_zeros(1, 1, 1, k.shape[2])
    mask = numbers(mask, sink.dtype)
    rows, heads = mask.shape[0], max(mask.shape[1], sink.shape[0])
    column = sink.view(1, -1, 1, 1).expand(rows, heads, 1, 1)
    mask = torch.cat((mask.expand(-1, heads, -1, -1), column), dim=-1)
    return pad(k, (0, 0, 0, 1)), pad(v, (0, 0, 0, 1)), mask
