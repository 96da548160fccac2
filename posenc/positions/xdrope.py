"""Text with images among it as HunYuan-VL places it: counts, columns, rows and images."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.build import build
from posenc.positions.grids import grids
from posenc.positions.sound import runs_of
from posenc.positions.token_types import first_of_documents, real_types
from posenc.positions.tokens import check_whole, device_of, reading_values

_CALL = "Positions.xdrope"
P = TypeVar("P")


def xdrope(
    make: Callable[..., P],
    token_types: Tensor,
    images: Tensor | None = None,
    *,
    merge: int = 1,
    marks: bool = False,
    axes: int = 4,
    q_len: int | None = None,
    causal: bool = False,
    attention_mask: Tensor | None = None,
    documents: Tensor | None = None,
    extent: int | None = None,
) -> P:
    """Text with images, as coordinates (b, t, 4) of count, column, row and image (xDRoPE).

        text     (n, n, n, n)               n counts the tokens before it, those of images too
        image m  (n, column, row, m)        column = 0, ..., columns;  row = 0, ..., rows - 1

    Each row of an image ends with a token of its own, in the column behind its last. Columns and
    rows count from 0 in every image, images from 0 in every row of the batch and every document.
    Read by MRoPE of as many sections, one after another.

    token_types   (b, k_len): 0 text, 1 image
    images        (n, 3) time, height and width of each image of the batch, in reading order
                  (image_grid_thw); time is 1
    merge         by which height and width shrink from these grids to tokens (spatial_merge_size)
    marks         the first and the last token of each run of type 1 are marks around an image,
                  which count as text does (mm_token_type_ids of transformers has them)
    axes          3 leaves the count out
    q_len, causal, attention_mask, documents, extent   as in `mrope`

    Example: `Positions.xdrope(torch.tensor([[0, 1, 1, 1, 0]]), torch.tensor([[1, 1, 2]]))`.

    Raises PositionsError for grids that do not add up to the tokens, that merge does not divide,
    and for images that are cut or have several frames.
    Source: HunYuanVLModel.get_rope_index of transformers, and get_xdrope_input_positions of vLLM.
    In transformers images count on from row to row of a batch; here, as in vLLM, each row is alone.
    """
    told = {"token_types": token_types, "images": images}
    told.update(attention_mask=attention_mask, documents=documents)
    device_of(_CALL, {name: tensor for name, tensor in told.items() if tensor is not None})
    _check(token_types, images, merge, axes)
    pictures = grids("images", images, merge, 1, 1.0, True, False, token_types, _CALL)
    # A row of an image has one token more.
    pictures = replace(pictures, sizes=pictures.sizes + pictures.sizes.new_tensor([0, 0, 1]))
    types = real_types(_CALL, token_types, attention_mask)
    starts = first_of_documents(_CALL, types, documents)
    here = types == 1
    if marks:
        here = _without_marks(here, starts)
    if reading_values():
        pictures.check_count(int(here.sum()))
    count = _before(types >= 0, starts)
    coordinates = [count] * axes
    if pictures.sizes.shape[0]:
        which, inside = pictures.places(here)
        if reading_values():
            pictures.check_whole(here, runs_of(here, starts), which, inside)
        _, row, column = pictures.coordinates(which, inside)
        first = here & (inside == 0)
        image = _before(first, starts) + first.long() - 1
        own = (count, column, row, image)[4 - axes :]
        coordinates = [torch.where(here, new, count) for new in own]
    return build(
        make,
        q_len,
        ids=torch.stack(coordinates, dim=-1),
        attention_mask=attention_mask,
        documents=documents,
        causal=causal,
        extent=extent,
    )


def _before(counted: Bool[Tensor, "b t"], starts: Bool[Tensor, "b t"]) -> Int[Tensor, "b t"]:
    """How many of those that count lie before each token in its own document."""
    before = counted.long().cumsum(-1) - counted.long()
    return before - torch.where(starts, before, 0).cummax(-1).values


def _without_marks(here: Bool[Tensor, "b t"], starts: Bool[Tensor, "b t"]) -> Bool[Tensor, "b t"]:
    """Runs without their first and their last token."""
    first, last = here & starts, here.clone()
    first[:, 1:] |= here[:, 1:] & ~here[:, :-1]
    last[:, :-1] &= ~here[:, 1:] | starts[:, 1:]
    return here & ~first & ~last


def _check(token_types: Tensor, images: Tensor | None, merge: int, axes: int) -> None:
    if token_types.ndim != 2 or token_types.dtype not in (torch.int32, torch.int64):
        raise PositionsError(
            f"{_CALL}(token_types=...) has shape {tuple(token_types.shape)} and "
            f"{token_types.dtype}: (b, k_len) of whole numbers is needed, 0 for text, 1 for images"
        )
    check_whole(_CALL, merge=merge, axes=axes)
    if merge < 1 or axes not in (3, 4):
        raise PositionsError(f"{_CALL}(merge={merge}, axes={axes}): merge >= 1, axes 3 or 4")
    if not reading_values():
        return
    if token_types.numel() and not bool(((token_types == 0) | (token_types == 1)).all()):
        least, largest = (int(value) for value in token_types.aminmax())
        raise PositionsError(
            f"{_CALL}(token_types=...) goes from {least} to {largest}: 0 is text and 1 an image; "
            "for token ids give (ids == image_id).long()"
        )
    if images is not None and images.ndim == 2 and bool((images[:, :1] != 1).any()):
        raise PositionsError(
            f"{_CALL}(images={images.tolist()}): an image has a time of 1; frames of a video are "
            "images of their own"
        )
