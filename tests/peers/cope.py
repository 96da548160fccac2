from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.attention import attend
from posenc.attention_parts import scores
from posenc.encodings import CoPE
from posenc.testing.agreement import Case, peer
from tests.peers._layers import joined, set_alike, split


@peer("cope", "x-transformers")
def layer_of_x_transformers() -> Iterator[Case]:
    """Attention with use_cope, the whole causal layer"""
    yield _layer(heads=4, head_dim=8, length=17, rows=6)
    yield _layer(heads=12, head_dim=80, length=1, rows=16)
    # Half of 90 gates open or more: counts far past the last row.
    yield _layer(heads=12, head_dim=80, length=90, rows=7)


@peer("cope", "x-transformers")
def module_of_x_transformers() -> Iterator[Case]:
    """The module CoPE, on masked logits of fewer queries than keys"""
    yield _module(heads=12, head_dim=80, q_len=3, k_len=11, rows=4)
    yield _module(heads=5, head_dim=7, q_len=1, k_len=23, rows=30)


def _layer(heads: int, head_dim: int, length: int, rows: int) -> Case:
    from x_transformers.x_transformers import Attention

    layer = Attention(
        dim=24,
        dim_head=head_dim,
        heads=heads,
        causal=True,
        use_cope=True,
        cope_max_pos=rows,
        # Its own softmax rounds to float32.
        custom_attn_fn=partial(F.softmax, dim=-1),
    ).double()
    encoding = CoPE(head_dim, rows).double()

    def ours(x: Tensor) -> Tensor:
        q, k, v = (split(linear(x), heads) for linear in (layer.to_q, layer.to_k, layer.to_v))
        return layer.to_out(joined(attend(q, k, v, encoding, causal=True)))

    return Case(
        f"{heads} heads of {head_dim}, length {length}, {rows} rows",
        ours,
        layer,
        [torch.randn(2, length, 24, dtype=torch.float64)],
        [set_alike(encoding.weight, layer.attend.cope.pos_emb)],
    )


def _module(heads: int, head_dim: int, q_len: int, k_len: int, rows: int) -> Case:
    from x_transformers.x_transformers import CoPE as Module

    module = Module(head_dim, heads, rows).double()
    encoding = CoPE(head_dim, rows).double()
    future = torch.ones(q_len, k_len).triu(k_len - q_len + 1) > 0

    def theirs(q: Tensor, k: Tensor) -> Tensor:
        logits = (head_dim**-0.5 * q @ k.mT).masked_fill(future, -torch.finfo(q.dtype).max)
        return (logits + module(q, logits)).masked_fill(future, 0.0)

    return Case(
        f"{heads} heads of {head_dim}, {q_len} queries and {k_len} keys, {rows} rows",
        lambda q, k: scores(q, k, encoding, causal=True).masked_fill(future, 0.0),
        theirs,
        [torch.randn(2, heads, length, head_dim, dtype=torch.float64) for length in (q_len, k_len)],
        [set_alike(encoding.weight, module.pos_emb)],
    )
