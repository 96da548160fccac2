"""Positions from numbers of tokens, and from what tells more of them: a mask, documents, ids."""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.from_documents import (
    cumulative,
    document_numbers,
    documents_between,
    index_in_document,
    summed,
)
from posenc.positions.from_mask import from_mask
from posenc.positions.sequences import length_of
from posenc.positions.tokens import (
    Tokens,
    check_sizes,
    check_whole,
    device_of,
    reading_values,
    whole_or_double,
)

P = TypeVar("P")


def build(
    make: Callable[..., P],
    q_len: int | None = None,
    k_len: int | None = None,
    *,
    causal: bool = False,
    past: int | None = None,
    attention_mask: Tensor | None = None,
    documents: Tensor | None = None,
    lengths: Sequence[int] | Tensor | None = None,
    cu_seqlens: Sequence[int] | Tensor | None = None,
    ids: Tensor | None = None,
    start: int = 0,
    extent: int | None = None,
    device: torch.device | str | None = None,
) -> P:
    """Positions from what is at hand; the queries are the last q_len of the k_len tokens.

    q_len, k_len    numbers of queries and keys; k_len defaults to q_len, or to the tensors'
    past            how many tokens came before the queries, as in decoding and in prefilling
                    by chunks: k_len = past + q_len
    attention_mask  (b, k_len), nonzero for real tokens; padding on the left or on the right.
                    Real tokens count from 0, so padding changes nothing
    documents       (k_len,) or (b, k_len): one number per packed document, contiguous;
                    positions restart in each
    lengths         the same for one row: the lengths of its documents, in order
    cu_seqlens      the same, as flash-attn takes them: (documents + 1,), from 0 to k_len
    ids             coordinates (k_len,), (b, k_len) or (b, k_len, axes) as they are
    start           position of the first token of each sequence, where it is not 0: RoBERTa
                    starts at padding_idx + 1, BART and OPT at 2
    extent          a bound on positions + 1, where they may not be read (inside a compiled
                    graph); encodings that depend on the length of the input take it as that

    Example: `Positions.build(4, causal=True)`, `Positions.build(1, past=7)`.

    Raises PositionsError for masks with holes, documents that reappear, lengths that do not
    add up, negative ids, positions beyond the extent, more queries than keys, and tensors of
    different batches or devices.
    """
    call = "Positions.build"
    check_whole(call, q_len=q_len, k_len=k_len, past=past, start=start, extent=extent)
    packed = {"documents": documents, "lengths": lengths, "cu_seqlens": cu_seqlens}
    named = [name for name, value in packed.items() if value is not None]
    if len(named) > 1:
        raise PositionsError(f"{call} takes {' or '.join(named)}, not both")
    if start < 0 or (ids is not None and start):
        raise PositionsError(
            f"{call}(start={start}): positions are counted from a start >= 0; ids are taken as "
            f"they are, so add {start} to them instead"
        )
    tensors = {"attention_mask": attention_mask, "ids": ids, "documents": documents}
    cu = None if lengths is None else summed(lengths, device)
    cu = cu if cu_seqlens is None else cumulative(cu_seqlens, device)
    if cu is not None:
        tensors[named[0]] = documents = documents_between(cu, k_len or q_len, call)
    told = {name: value for name, value in tensors.items() if value is not None}
    device = device_of(call, told, device)
    q_len, k_len = _sizes(told, q_len, k_len, past)
    keys, bound = keys_from(
        k_len, attention_mask, documents, ids, start=start, extent=extent, device=device
    )
    made = make(keys.last(q_len), keys, causal, bound, unit_step=ids is None, start=start)
    if documents is not None and attention_mask is None and reading_values():
        # Documents lie one after the other, each counted from 0: nobody has to read that again.
        vars(made)["_aligned"] = True
    return made


def keys_from(
    k_len: int,
    attention_mask: Tensor | None = None,
    documents: Tensor | None = None,
    ids: Tensor | None = None,
    *,
    start: int = 0,
    extent: int | None = None,
    device: torch.device | str | None = None,
) -> tuple[Tokens, int | None]:
    """The keys of `build`, and a bound on position + 1 where it is not k_len."""
    order = valid = length = None
    if attention_mask is not None:
        valid, order = from_mask(attention_mask)
        length = (order[:, -1:] + 1).expand(order.shape)
    if documents is not None:
        documents = document_numbers(documents, valid)
        order, length = index_in_document(documents, valid)
    if ids is not None:
        position = whole_or_double(ids)
        bound = extent_of(position, "Positions.build(ids=...)")
        length = length_of(position, documents, valid) if extent is None else None
    else:
        position = torch.arange(k_len, device=device) if order is None else order
        bound = k_len + start if start else None
        if start:
            position = position + start
            length = position[-1:].expand(k_len) + 1 if length is None else length + start
    if extent is None:
        return Tokens(position, order, documents, length, valid), bound
    if reading_values():
        plain = ids is None and order is None
        least = k_len + start if plain else math.ceil(position.max().item()) + 1
        if extent < least:
            raise PositionsError(
                f"Positions.build(extent={extent}): the largest position is "
                f"{position.max().item()}, so extent must be at least {least}"
            )
    return Tokens(position, order, documents, valid=valid), extent


def _sizes(
    told: dict[str, Tensor], q_len: int | None, k_len: int | None, past: int | None
) -> tuple[int, int]:
    """Numbers of queries and keys; every tensor describes all keys."""
    call = "Positions.build"
    if past is not None and past < 0:
        raise PositionsError(f"{call}(past={past}): past counts the tokens before, so it is >= 0")
    batched: dict[str, Tensor] = {}
    for name, tensor in told.items():
        given = tensor.numel() if tensor.ndim < 2 else tensor.shape[1]
        k_len = given if k_len is None else k_len
        if given != k_len:
            raise PositionsError(
                f"{call}: {k_len} keys, but {name}, a tensor of shape {tuple(tensor.shape)}, "
                f"describes {given} tokens: give one entry per key"
            )
        if tensor.ndim > 1 and tensor.shape[0] != 1:
            batched[name] = tensor
    rows = list(batched.values())
    for tensor in rows:
        if tensor.shape[0] != rows[0].shape[0]:
            shapes = " and ".join(
                f"{name} of shape {tuple(x.shape)}" for name, x in batched.items()
            )
            raise PositionsError(
                f"{call}: {shapes} differ in their batch: give one row, or as many"
            )
    if past is not None:
        if k_len is None and q_len is not None:
            k_len = past + q_len
        elif k_len is not None and q_len is None:
            q_len = k_len - past
        if k_len is None or q_len is None or k_len != past + q_len:
            raise PositionsError(
                f"{call}(past={past}): {q_len} queries behind {past} tokens do not make {k_len} "
                "keys: give two of q_len, k_len and past, where k_len = past + q_len"
            )
    k_len = q_len if k_len is None else k_len
    if k_len is None:
        raise PositionsError(f"{call} needs q_len, or a tensor that tells the length")
    q_len = k_len if q_len is None else q_len
    ids = told.get("ids")
    if ids is not None and ids.ndim == 2 and ids.shape[0] == q_len > k_len:
        raise PositionsError(
            f"{call}(ids=...) of shape {tuple(ids.shape)} are {q_len} rows of {k_len} tokens: "
            f"several coordinates of {q_len} tokens are (b, t, axes), ids[None]"
        )
    check_sizes(call, q_len, k_len)
    return q_len, k_len


def extent_of(ids: Tensor, call: str) -> int | None:
    """A bound on ids + 1; None where a traced graph may not read them."""
    if not reading_values() or ids.numel() == 0:
        return None
    if ids.is_floating_point() and not torch.isfinite(ids).all():
        raise PositionsError(f"{call}: ids must be finite")
    least, largest = (value.item() for value in ids.aminmax())
    if least < 0:
        raise PositionsError(f"{call}: the smallest id is {least}: ids must be >= 0")
    return math.ceil(largest) + 1
