"""The keys of Positions.build, from a mask, documents or coordinates, or from counting alone."""

import math

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.from_documents import document_numbers, index_in_document
from posenc.positions.from_ids import extent_of, whole_or_double
from posenc.positions.from_mask import from_mask
from posenc.positions.tokens import Tokens, length_of, reading_values


def arranged(
    k_len: int,
    attention_mask: Tensor | None,
    documents: Tensor | None,
    ids: Tensor | None,
    start: int,
    extent: int | None,
    device: torch.device | str | None,
) -> tuple[Tokens, int | None]:
    """The keys, and a bound on position + 1 where it is not k_len."""
    order = valid = length = None
    if attention_mask is not None:
        valid, order = from_mask(attention_mask)
        length = (order[:, -1:] + 1).expand(order.shape)
    if documents is not None:
        documents = document_numbers(documents, valid)
        order, length = index_in_document(documents, valid)
    if ids is not None:
        at = whole_or_double(ids)
        bound = extent_of(at)
        length = length_of(at, documents, valid) if extent is None else None
    else:
        at = torch.arange(k_len, device=device) if order is None else order
        bound = k_len + start if start else None
        if start:
            at = at + start
            length = at[-1:].expand(k_len) + 1 if length is None else length + start
    if extent is None:
        return Tokens(at, order, documents, length, valid), bound
    if reading_values():
        plain = ids is None and order is None
        least = k_len + start if plain else math.ceil(at.max().item()) + 1
        if extent < least:
            raise PositionsError(
                f"Positions.build(extent={extent}): the largest position is {at.max().item()}, so "
                f"extent must be at least {least}"
            )
    return Tokens(at, order, documents, valid=valid), extent
