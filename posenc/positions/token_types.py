"""What kind each token of a text with images is: which are padding, and where documents begin."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.from_documents import document_numbers
from posenc.positions.from_mask import from_mask


def real_types(call: str, token_types: Tensor, attention_mask: Tensor | None) -> Int[Tensor, "b t"]:
    """Types as int64, -1 where padding is."""
    types = token_types.long()
    if attention_mask is None:
        return types
    valid = from_mask(attention_mask, call)[0]
    if valid.shape != types.shape:
        raise PositionsError(
            f"{call}: token_types of shape {tuple(types.shape)}, attention_mask of shape "
            f"{tuple(valid.shape)}: both are (b, k_len)"
        )
    return torch.where(valid, types, -1)


def first_of_documents(
    call: str, types: Int[Tensor, "b t"], documents: Tensor | None
) -> Bool[Tensor, "b t"]:
    """Which tokens begin a row or a document."""
    starts = torch.zeros_like(types, dtype=torch.bool)
    starts[:, :1] = True
    if documents is None:
        return starts
    numbers = document_numbers(documents, None)
    if numbers.shape[-1] != types.shape[1]:
        raise PositionsError(
            f"{call}: token_types of shape {tuple(types.shape)}, documents of shape "
            f"{tuple(numbers.shape)}: one document per token is needed"
        )
    starts[:, 1:] |= numbers[..., 1:] != numbers[..., :-1]
    return starts
