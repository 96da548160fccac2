"""Packed documents, read from their numbers, their lengths or cumulative lengths."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.from_mask import real_span
from posenc.positions.sequences import changes, length_of
from posenc.positions.tokens import check_tensors, reading_values


def document_numbers(documents: Tensor, valid: Bool[Tensor, "b t"] | None) -> Int[Tensor, "*#b t"]:
    """Documents as int64, one row for each of the mask's."""
    call = f"Positions.build(documents=...) of shape {tuple(documents.shape)}"
    if documents.is_floating_point() or documents.is_complex():
        raise PositionsError(
            f"{call} has dtype {documents.dtype}: a number per document is needed, int64"
        )
    if documents.ndim not in (1, 2):
        raise PositionsError(f"{call}: (k_len,) or (b, k_len) is needed")
    documents = documents.long()
    return documents if valid is None else documents.expand(valid.shape)


def index_in_document(
    documents: Int[Tensor, "*#b t"], valid: Bool[Tensor, "b t"] | None
) -> tuple[Int[Tensor, "*#b t"], Int[Tensor, "*#b t"]]:
    """The order of each token in its own document, and the length of that."""
    rows = documents[None] if documents.ndim == 1 else documents
    starts = changes(rows)
    starts[:, :1] = True
    if valid is not None:
        # Padding inside the first document must not count as its tokens.
        starts |= valid & changes(valid)
    if not reading_values():
        # How many documents there are is not known: the start of each spreads to its tokens.
        index = torch.arange(rows.shape[-1], device=rows.device).expand_as(rows)
        order = index - (index * starts).cummax(-1).values
        length = length_of(order, starts.cumsum(-1), valid)
        return order.view(documents.shape), length.view(documents.shape)
    _check_contiguous(rows, valid)
    begin = starts.view(-1).nonzero().view(-1)
    cu = torch.cat((begin, begin.new_tensor([rows.numel()])))
    end = cu[1:]
    if valid is not None:
        width = rows.shape[1]
        of_row = begin.div(width, rounding_mode="floor")
        first, last = (x[of_row] + of_row * width for x in real_span(valid))
        begin, end = begin.maximum(first), end.minimum(last)
    order = order_between(cu, rows.numel())
    length = each_token((end - begin).clamp(min=1), cu, rows.numel())
    return order.view(documents.shape), length.view(documents.shape)


def order_between(cu: Int[Tensor, "n"], count: int) -> Int[Tensor, "t"]:
    """The order of each of `count` tokens in its own document, n being cu[n] .. cu[n + 1] - 1."""
    order = stairs(cu[1:], -cu.diff(), count)
    order += torch.arange(count, device=cu.device)
    return order


def each_token(values: Int[Tensor, "n"], cu: Int[Tensor, "m"], count: int) -> Int[Tensor, "t"]:
    """For each of `count` tokens the value of its document."""
    return stairs(cu[:-1], torch.cat((values[:1], values.diff())), count)


def stairs(at: Int[Tensor, "n"], rises: Int[Tensor, "n"], count: int) -> Int[Tensor, "t"]:
    """For each of `count` tokens the sum of the rises up to it."""
    made = torch.zeros(count + 1, dtype=torch.int64, device=at.device).scatter_add_(0, at, rises)
    return made[:count].cumsum_(0)


def summed(lengths: Sequence[int] | Tensor, device: torch.device | str | None) -> Int[Tensor, "n"]:
    """Cumulative lengths, from 0 to the number of tokens, of documents of these lengths."""
    if not isinstance(lengths, Tensor):
        # One number has no documents to go through, and is refused with its shape.
        bare = isinstance(lengths, (int, float))
        lengths = torch.tensor(lengths if bare else list(lengths), device=device)
    check_tensors("Positions.build", lengths=lengths)
    whole = not lengths.dtype.is_floating_point and lengths.dtype != torch.bool
    if lengths.ndim != 1 or not whole or lengths.shape[0] == 0:
        raise PositionsError(
            f"Positions.build(lengths={shown(lengths)}) has shape {tuple(lengths.shape)}: one "
            "whole number >= 1 per document of one row is needed, (n,). For rows padded to one "
            "length give attention_mask=torch.arange(k_len) < lengths[:, None]"
        )
    if reading_values() and lengths.min() < 1:
        raise PositionsError(f"Positions.build(lengths={shown(lengths)}): each must be >= 1")
    ends = lengths.long().cumsum(0)
    return torch.cat((torch.zeros_like(ends[:1]), ends))


def documents_between(cu: Int[Tensor, "n"], count: int | None, call: str) -> Int[Tensor, "t"]:
    """The number of the document of each token, where document n is cu[n] .. cu[n + 1] - 1.

    In a compiled graph, which may not read where they end, count must tell the number of tokens.
    """
    if reading_values():
        count = int(cu[-1])
    elif count is None:
        raise PositionsError(
            f"{call} may not read cumulative lengths in a compiled graph: tell the number of "
            "tokens beside them, q_len and k_len"
        )
    return stairs(cu[1:], torch.ones_like(cu[1:]), count)


def cumulative(
    cu_seqlens: Tensor | Sequence[int],
    device: torch.device | str | None,
    call: str = "Positions.build",
    name: str = "cu_seqlens",
) -> Int[Tensor, "n"]:
    """Cumulative lengths as int64. Neighbours may be equal: documents without tokens.

    Raises PositionsError where they do not start at 0 or are not sorted.
    """
    cu = torch.as_tensor(cu_seqlens, device=None if isinstance(cu_seqlens, Tensor) else device)
    check_tensors(call, **{name: cu})
    if cu.ndim != 1 or cu.shape[0] < 2 or cu.dtype not in (torch.int32, torch.int64):
        raise PositionsError(
            f"{call}({name}=...) has shape {tuple(cu.shape)} and {cu.dtype}: cumulative lengths "
            "(documents + 1,) of int32 or int64 are needed, such as [0, 3, 8]"
        )
    cu = cu.long()
    if reading_values():
        if int(cu[0]) != 0:
            raise PositionsError(
                f"{call}({name}={shown(cu)}): they start at {int(cu[0])}, not at 0: these may be "
                "lengths, give lengths=... or put 0 in front of their cumulative sum"
            )
        if bool((cu[1:] < cu[:-1]).any()):
            raise PositionsError(
                f"{call}({name}={shown(cu)}): they are not sorted: each is the number of tokens "
                "before a document, so they never fall; for lengths give lengths=..."
            )
    return cu


def _check_contiguous(rows: Int[Tensor, "b t"], valid: Bool[Tensor, "b t"] | None) -> None:
    if bool((rows[:, 1:] >= rows[:, :-1]).all()):
        return
    if valid is not None:
        # What padding is numbered does not matter: let it go on with its neighbour.
        index = torch.arange(rows.shape[1], device=rows.device)
        first, end = (x[:, None] for x in real_span(valid))
        rows = rows.gather(1, index.maximum(first).minimum((end - 1).clamp(min=0)))
    runs = (rows[:, 1:] != rows[:, :-1]).sum(-1)
    distinct = rows.sort(-1).values.diff(dim=-1).ne(0).sum(-1)
    for row in (runs != distinct).nonzero().view(-1).tolist()[:1]:
        found = torch.unique_consecutive(rows[row]).tolist()
        raise PositionsError(
            f"Positions.build(documents=...): in row {row} a document appears again after another "
            f"one (runs {found[:8]}): the tokens of a document must be contiguous"
        )


def shown(values: Tensor) -> str:
    """The first of these values, for an error."""
    if not reading_values():
        return "..."
    if values.ndim == 0:
        return str(values.item())
    first = ", ".join(map(str, values[:8].tolist()))
    return f"[{first}{', ...' if len(values) > 8 else ''}]"
