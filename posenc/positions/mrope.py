"""Text with images, videos and sound among it: coordinates of time, row and column.

Letters: b batch, t tokens, n images and videos in reading order.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.build import build
from posenc.positions.grids import TextAfter, grids
from posenc.positions.sound import Films, runs_of
from posenc.positions.token_types import first_of_documents, real_types
from posenc.positions.tokens import check_whole, device_of, reading_values

_CALL = "Positions.mrope"
P = TypeVar("P")


def mrope(
    make: Callable[..., P],
    token_types: Tensor,
    images: Tensor | None = None,
    videos: Tensor | None = None,
    *,
    merge: int = 1,
    frame_merge: int = 1,
    frame_step: float | Tensor = 1.0,
    whole_steps: bool = True,
    frames_apart: bool = False,
    text_after: TextAfter = "largest",
    tied_marks: bool = False,
    q_len: int | None = None,
    causal: bool = False,
    attention_mask: Tensor | None = None,
    documents: Tensor | None = None,
    extent: int | None = None,
) -> P:
    """Text with images, videos and sound, as coordinates (b, t, 3) of time, row and column.

    Text moves all three by 1, and so does sound. A token of an image is at the position where the
    image begins plus its (frame, row, column); text goes on after the largest of them, so that an
    image takes max(rows, columns) positions, however many tokens it has. Sound that lies among
    the tokens of a video, or beside them, begins where the video does (TMRoPE): both count the
    same time.

    token_types   (b, k_len): 0 text, 1 image, 2 video, 3 sound (transformers' mm_token_type_ids)
    images        (n, 3) time, height and width of each image of the batch, in reading order
                  (image_grid_thw); videos the same (video_grid_thw)
    merge         by which height and width shrink from these grids to tokens
                  (spatial_merge_size: 2 in Qwen's models)
    frame_merge   the same of a video's time (ERNIE 4.5 VL: temporal_merge_size, 2)
    frame_step    positions from frame to frame of a video, or of each video (Qwen2.5-VL:
                  tokens_per_second * second_per_grid_ts; Qwen's Omni models:
                  position_id_per_seconds * second_per_grids)
    whole_steps   times are rounded down to whole positions; Qwen3-Omni does not (False)
    frames_apart  the frames of a video are separate, each after its timestamp (Qwen3-VL)
    text_after    "largest" is the paper; "side" takes max(rows, columns) for videos too, as
                  transformers does since version 5, so that text may share their times
    tied_marks    the two marks that open a video with sound share a position, and so do the two
                  that close it (Qwen2.5-Omni)
    q_len         the queries are the last ones: pass all tokens so far to decode or prefill by
                  chunks
    documents     (k_len,) or (b, k_len): one number per packed document; each counts from 0
    attention_mask, extent   as in `build`

    Example: `Positions.mrope(torch.tensor([[0, 1, 1, 0]]), torch.tensor([[1, 1, 2]]))`.

    Raises PositionsError for grids that do not add up to the tokens, that the merge sizes do
    not divide, for images that are cut, and for sound that lies among several videos.
    Source: Wang et al. 2024, arXiv:2409.12191, section 2.1; sound: Xu et al. 2025,
    arXiv:2503.20215 (TMRoPE).
    """
    told = {"token_types": token_types, "images": images, "videos": videos}
    told.update(attention_mask=attention_mask, documents=documents)
    check_whole(_CALL, merge=merge, frame_merge=frame_merge, q_len=q_len, extent=extent)
    device_of(_CALL, {name: tensor for name, tensor in told.items() if tensor is not None})
    _check_types(token_types, merge, frame_merge, text_after)
    kinds = {
        1: grids("images", images, merge, 1, 1.0, True, False, token_types),
        2: grids(
            "videos",
            videos,
            merge,
            frame_merge,
            frame_step,
            whole_steps,
            frames_apart,
            token_types,
        ),
    }
    types = real_types(_CALL, token_types, attention_mask)
    starts = first_of_documents(_CALL, types, documents)
    # A third of the work would be for sound, of which most batches have none.
    sound = not reading_values() or bool((types == 3).any())
    films = Films.among(types, starts) if sound else None
    advance = own = (types == 0).long()
    within = [torch.zeros_like(own)] * 3
    for kind, pictures in kinds.items():
        here = types == kind
        if reading_values():
            pictures.check_count(int(here.sum()))
        if pictures.sizes.shape[0] == 0:
            continue
        which, inside = pictures.places(here)
        if reading_values():
            runs = films.runs if kind == 2 and films is not None else runs_of(here, starts)
            pictures.check_whole(here, runs, which, inside)
        side = pictures.extent(text_after)[which]
        inner = zip(pictures.coordinates(which, inside), within, strict=True)
        within = [torch.where(here, new, old) for new, old in inner]
        advance = torch.where(here & (inside == 0), side, advance)
        own = torch.where(here, side, own)
    if films is not None:
        advance, own = films.together(advance, own, tied_marks)
        within = [torch.where(types == 3, films.inside, old) for old in within]
    # A token starts where all before it have moved to, itself and its own image aside.
    moved = advance.cumsum(-1)
    before = torch.where(starts, moved - advance, 0).cummax(-1).values
    ids = torch.stack(within, dim=-1) + (moved - own - before)[..., None]
    return build(
        make,
        q_len,
        ids=ids,
        attention_mask=attention_mask,
        documents=documents,
        causal=causal,
        extent=extent,
    )


def _check_types(token_types: Tensor, merge: int, frame_merge: int, text_after: str) -> None:
    if token_types.ndim != 2 or token_types.dtype not in (torch.int32, torch.int64):
        raise PositionsError(
            f"{_CALL}(token_types=...) has shape {tuple(token_types.shape)} and "
            f"{token_types.dtype}: (b, k_len) of whole numbers is needed, 0 for text, 1 for "
            "images, 2 for videos, 3 for sound"
        )
    if text_after not in ("largest", "side") or min(merge, frame_merge) < 1:
        raise PositionsError(
            f"{_CALL}(merge={merge}, frame_merge={frame_merge}, text_after={text_after!r}): "
            "merges are at least 1, text_after 'largest' or 'side'"
        )
    if reading_values() and token_types.numel():
        least, largest = (int(value) for value in token_types.aminmax())
        if least < 0 or largest > 3:
            raise PositionsError(
                f"{_CALL}(token_types=...) goes from {least} to {largest}: 0 is text, 1 an image, "
                "2 a video, 3 sound; for token ids give (ids == image_id).long() + "
                "2 * (ids == video_id)"
            )
