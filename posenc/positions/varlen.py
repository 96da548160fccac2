"""Packed documents with queries of their own, from the cumulative lengths of both sides."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.from_documents import cumulative, documents_between, each_token, order_between
from posenc.positions.tokens import Tokens, check_sizes, reading_values


def last_of_each(
    cu_seqlens_q: Tensor | Sequence[int],
    cu_seqlens_k: Tensor | Sequence[int],
    q_len: int | None,
    k_len: int | None,
    device: torch.device | str | None,
) -> tuple[Tokens, Tokens]:
    """Queries and keys of packed documents, where the queries are the last tokens of each."""
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
    for side, told, found in (("q", q_len, tq), ("k", k_len, tk)):
        if told is not None and told != found:
            raise PositionsError(
                f"{call}({side}_len={told}): cu_seqlens_{side} end at {found} tokens: "
                "leave it away, or give that number"
            )
    check_sizes(call, tq, tk)
    q_order = order_between(q_cu, tq) + each_token(k_lengths - q_lengths, q_cu, tq)
    k_order = order_between(k_cu, tk)
    return (
        Tokens(q_order, q_order, q_document, each_token(k_lengths, q_cu, tq)),
        Tokens(k_order, k_order, k_document, each_token(k_lengths, k_cu, tk)),
    )
