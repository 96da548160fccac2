"""Packed documents with queries of their own, from the cumulative lengths of both sides."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.from_documents import (
    cumulative,
    documents_between,
    each_token,
    order_between,
)
from posenc.positions.tokens import Tokens, check_sizes, reading_values

P = TypeVar("P")


def varlen(
    make: Callable[..., P],
    cu_seqlens_q: Sequence[int] | Tensor,
    cu_seqlens_k: Sequence[int] | Tensor,
    *,
    causal: bool = False,
    q_len: int | None = None,
    k_len: int | None = None,
    device: torch.device | str | None = None,
) -> P:
    """Packed documents, whose queries are the last tokens of each, as flash-attn takes them.

    cu_seqlens_*  cumulative lengths (documents + 1,) of queries and of keys: chunked prefill or
                  decoding of several sequences in one row
    q_len, k_len  where they end; needed inside a compiled graph alone

    Example: `Positions.varlen([0, 1, 3], [0, 4, 8], causal=True)`.

    Raises PositionsError where they do not start at 0, are not sorted, or differ in their
    number of documents, and for a document of more queries than keys.
    """
    call = "Positions.varlen"
    q_cu = cumulative(cu_seqlens_q, device, call, "cu_seqlens_q")
    k_cu = cumulative(cu_seqlens_k, device, call, "cu_seqlens_k")
    q_lengths, k_lengths = q_cu.diff(), k_cu.diff()
    if q_cu.device != k_cu.device or q_lengths.shape != k_lengths.shape:
        raise PositionsError(
            f"{call}: {q_lengths.shape[0]} documents of queries on {q_cu.device}, "
            f"{k_lengths.shape[0]} of keys on {k_cu.device}: both must tell of the same documents, "
            "on one device"
        )
    if reading_values():
        for n in (q_lengths > k_lengths).nonzero().view(-1).tolist()[:1]:
            raise PositionsError(
                f"{call}: document {n} has {int(q_lengths[n])} queries but only "
                f"{int(k_lengths[n])} keys: queries are the last of the tokens of their document"
            )
    q_document = documents_between(q_cu, q_len, call)
    k_document = documents_between(k_cu, k_len, call)
    tq, tk = q_document.shape[0], k_document.shape[0]
    for side, told, tokens in (("q", q_len, tq), ("k", k_len, tk)):
        if told is not None and told != tokens:
            raise PositionsError(
                f"{call}({side}_len={told}): cu_seqlens_{side} end at {tokens} tokens: "
                "leave it away, or give that number"
            )
    check_sizes(call, tq, tk)
    q_order = order_between(q_cu, tq) + each_token(k_lengths - q_lengths, q_cu, tq)
    k_order = order_between(k_cu, tk)
    queries = Tokens(q_order, q_order, q_document, each_token(k_lengths, q_cu, tq))
    keys = Tokens(k_order, k_order, k_document, each_token(k_lengths, k_cu, tk))
    return make(queries, keys, causal, unit_step=True)
