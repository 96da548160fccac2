"""Products of reflections by blocks of tokens, in memory that grows with the length.

Within a block all products come of one small triangular system. A key is carried to the end of its
block and a query back to the beginning of its own; between the two, the query is carried back
through one block after another, each of which is I minus as many outer products as it has tokens.
Yang et al. 2025, arXiv:2505.16381, section 3. Letters: n blocks, m tokens of a block.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.backends.blocked.products import product, summed
from posenc.normal_form.form import NormalForm
from posenc.normal_form.pairs import Span
from posenc.reflections import by_head, transform
from posenc.terms import Householder

# About as many tokens as heads have dimensions: then no part of the work outgrows the scores.
BLOCK = 64


def reflected(
    form: NormalForm, term: Householder, q: Tensor, k: Tensor, scale: float, dtype: torch.dtype
) -> dict[str, Tensor]:
    """What chunks of queries read.

    q          carried back to the beginning of its block, scaled
    k          carried to the end of its block
    own_block  scores of a query and the keys of its own block (b, h, tq, m)
    reflect_w, reflect_u  of every token: a whole block is I - sum of w u^T
    given_q, given_k      as they came, for pairs of which the key is the later one
    """
    k, w, beta = by_head(term, k, dtype)
    w, beta = (x.expand(k.shape[0], *x.shape[1:]) for x in (w, beta))
    q_len, k_len = q.shape[2], k.shape[2]
    size, shift = min(BLOCK, k_len), k_len - q_len
    first, more = shift // size, -k_len % size
    blocks = [F.pad(x, (0, 0, 0, more)).unflatten(2, (-1, size)) for x in (k, w, beta[..., None])]
    keys, ws = blocks[:2]
    t = transform(ws, blocks[2][..., 0])
    us, moves = t @ ws, t @ (ws @ keys.mT).tril(-1)
    carried = keys - moves.mT @ ws
    queries = F.pad(q * scale, (0, 0, shift % size, more)).unflatten(2, (-1, size))
    own_k, own_w, own_u, own_moves = (
        x[:, :, first:].repeat_interleave(q.shape[1] // k.shape[1], dim=1)
        for x in (keys, ws, us, moves)
    )
    reads = (queries @ own_w.mT).tril()
    own = queries @ own_k.mT - reads @ own_moves
    skipped = slice(shift % size, shift % size + q_len)
    found = {
        "q": (queries - reads @ own_u).flatten(2, 3)[:, :, skipped],
        "k": carried.flatten(2, 3)[:, :, :k_len],
        "own_block": own.flatten(2, 3)[:, :, skipped],
        "reflect_w": w,
        "reflect_u": us.flatten(2, 3)[:, :, :k_len],
    }
    if form.visibility.prefix or not form.plain:
        found |= {"given_q": q * scale, "given_k": k}
    return found


def reflected_scores(form: NormalForm, span: Span, x: dict[str, Tensor]) -> Tensor:
    """Scores of a span: blocks of keys from the last to the first, queries carried along."""
    k_len = form.positions.k_len
    size, rows = min(BLOCK, k_len), span.rows
    # Of the first query of the span among the keys.
    own = k_len - form.positions.q_len + span.start
    last = (max(own + rows, span.right) - 1) // size
    # Split at once: the gradient of each slice would be as long as the whole.
    ws, us = (x[name].split(size, dim=2) for name in ("reflect_w", "reflect_u"))
    ends = [*range((span.left // size + 1) * size, span.right, size), span.right]
    widths = [right - left for left, right in zip([span.left, *ends], ends, strict=False)]
    all_keys = x["k"].split(widths, dim=2)
    far, after = x["q"][:, :, :0], rows
    parts: list[Tensor] = []
    for block in range(last, span.left // size - 1, -1):
        begin, end = block * size, min((block + 1) * size, k_len)
        left, right = max(begin, span.left), min(end, span.right)
        within = min(max(begin - own, 0), rows)
        if left < right:
            keys = slice(left - span.left, right - span.left)
            inner = x["own_block"][:, :, within:after, left - begin : right - begin]
            above = inner.new_zeros(*inner.shape[:2], within, right - left)
            if within and "given_q" in x:
                above = product(x["given_q"][:, :, :within], x["given_k"][:, :, keys])
            met = product(far, all_keys[block - span.left // size])
            parts.append(torch.cat((above, inner, met), dim=2))
        if far.shape[2]:
            far = far - summed(product(far, ws[block]), us[block])
        if within < after:
            far, after = torch.cat((x["q"][:, :, within:after], far), dim=2), within
    return torch.cat(parts[::-1], dim=3)
