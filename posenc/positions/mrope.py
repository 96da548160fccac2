"""Text with images and videos among it: coordinates of time, row and column.

Letters: b batch, t tokens, n images and videos in reading order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.build import build
from posenc.positions.from_mask import from_mask
from posenc.positions.tokens import device_of, reading_values

TextAfter = Literal["largest", "side"]
_CALL = "Positions.mrope"
P = TypeVar("P")


def mrope(
    make: Callable[..., P],
    token_types: Tensor,
    images: Tensor | None = None,
    videos: Tensor | None = None,
    *,
    merge: int = 1,
    frame_step: float | Tensor = 1.0,
    frames_apart: bool = False,
    text_after: TextAfter = "largest",
    q_len: int | None = None,
    causal: bool = False,
    attention_mask: Tensor | None = None,
    extent: int | None = None,
) -> P:
    """Text with images and videos, as coordinates (b, t, 3) of time, row and column.

    Text moves all three by 1. A token of an image is at the position where the image begins
    plus its (frame, row, column); text goes on after the largest of them, so that an image
    takes max(rows, columns) positions, however many tokens it has.

    token_types   (b, k_len): 0 text, 1 image, 2 video (transformers' mm_token_type_ids)
    images        (n, 3) time, height and width of each image of the batch, in reading order
                  (image_grid_thw); videos the same (video_grid_thw)
    merge         by which height and width shrink from these grids to tokens
                  (spatial_merge_size: 2 in Qwen's models)
    frame_step    positions from frame to frame of a video, or of each video, rounded down
                  (Qwen2.5-VL: tokens_per_second * second_per_grid_ts)
    frames_apart  the frames of a video are separate, each after its timestamp (Qwen3-VL)
    text_after    "largest" is the paper; "side" takes max(rows, columns) for videos too, as
                  transformers does since version 5, so that text may share their times
    q_len         the queries are the last ones: pass all tokens so far to decode or prefill by
                  chunks
    attention_mask, extent   as in `build`

    Example: `Positions.mrope(torch.tensor([[0, 1, 1, 0]]), torch.tensor([[1, 1, 2]]))`.

    Raises PositionsError for grids that do not add up to the tokens, that the merge size does
    not divide, and for images that are cut.
    Source: Wang et al. 2024, arXiv:2409.12191, section 2.1.
    """
    told = {"token_types": token_types, "images": images, "videos": videos}
    told["attention_mask"] = attention_mask
    device_of(_CALL, {name: tensor for name, tensor in told.items() if tensor is not None})
    _check_types(token_types, merge, text_after)
    kinds = {
        1: _grids("images", images, merge, 1.0, False, token_types),
        2: _grids("videos", videos, merge, frame_step, frames_apart, token_types),
    }
    types = token_types.long()
    if attention_mask is not None:
        valid = from_mask(attention_mask, _CALL)[0]
        if valid.shape != types.shape:
            raise PositionsError(
                f"{_CALL}: token_types of shape {tuple(types.shape)}, attention_mask of shape "
                f"{tuple(valid.shape)}: both are (b, k_len)"
            )
        types = torch.where(valid, types, -1)
    advance = own = (types == 0).long()
    within = [torch.zeros_like(own)] * 3
    for kind, grids in kinds.items():
        here = types == kind
        if reading_values():
            grids.check_count(int(here.sum()))
        if grids.sizes.shape[0] == 0:
            continue
        which, inside = grids.places(here)
        if reading_values():
            grids.check_whole(here, which, inside)
        side = grids.extent(text_after)[which]
        inner = zip(grids.coordinates(which, inside), within, strict=True)
        within = [torch.where(here, new, old) for new, old in inner]
        advance = torch.where(here & (inside == 0), side, advance)
        own = torch.where(here, side, own)
    # A token starts where all before it have moved to, itself and its own image aside.
    begin = advance.cumsum(-1).sub_(own)
    ids = torch.stack(within, dim=-1).add_(begin[..., None])
    return build(make, q_len, ids=ids, attention_mask=attention_mask, causal=causal, extent=extent)


@dataclass(frozen=True, eq=False)
class _Grids:
    """The images or the videos of a batch, in reading order.

    sizes  (n, 3) frames, rows and columns, in tokens
    steps  (n,) float64, how far time moves from frame to frame
    """

    name: str
    sizes: Int[Tensor, "n 3"]
    steps: Float64[Tensor, "n"]

    def places(self, here: Bool[Tensor, "b t"]) -> tuple[Int[Tensor, "b t"], Int[Tensor, "b t"]]:
        """Of the tokens marked, read row by row: which of these each is in, and its index there."""
        counts = self.sizes.prod(-1)
        ends = counts.cumsum(0)
        rank = (here.reshape(-1).long().cumsum(0) - 1).view(here.shape).clamp(min=0)
        which = torch.searchsorted(ends, rank, right=True).clamp(max=counts.shape[0] - 1)
        return which, rank - (ends - counts)[which]

    def coordinates(
        self, which: Int[Tensor, "b t"], inside: Int[Tensor, "b t"]
    ) -> tuple[Int[Tensor, "b t"], ...]:
        """Time, row and column of token `inside` of each."""
        columns, area = self.sizes[:, 2][which], self.sizes[:, 1:].prod(-1)[which]
        frame = inside // area
        place = inside - frame * area
        row = place // columns
        return (frame * self.steps[which]).long(), row, place - row * columns

    def extent(self, text_after: TextAfter) -> Int[Tensor, "n"]:
        """How many positions each takes."""
        side = self.sizes[:, 1].maximum(self.sizes[:, 2])
        if text_after == "side":
            return side
        return side.maximum(((self.sizes[:, 0] - 1) * self.steps).long() + 1)

    def check_count(self, found: int) -> None:
        told = int(self.sizes.prod(-1).sum())
        if found != told:
            raise PositionsError(
                f"{_CALL}: {found} tokens of {self.name}, but their grids hold {told}: give one "
                "grid per image in reading order, as (time, height, width) of patches, and the "
                "merge size of the model, by which patches become tokens"
            )

    def check_whole(self, here: Tensor, which: Tensor, inside: Tensor) -> None:
        """Every image lies in one piece: whatever comes before its later tokens is of it too."""
        later = here & (inside > 0)
        whole = torch.zeros_like(later)
        whole[:, 1:] = here[:, :-1] & (which[:, :-1] == which[:, 1:])
        for row, column in (later & ~whole).nonzero().tolist()[:1]:
            of = int(which[row, column])
            raise PositionsError(
                f"{_CALL}: number {of} of {self.name} is {self.sizes[of].tolist()} tokens, but is "
                f"cut after {int(inside[row, column])} of them, at row {row}, token {column}: "
                "grids must come in reading order, and the tokens of an image lie together"
            )


def _grids(
    name: str,
    given: Tensor | None,
    merge: int,
    frame_step: float | Tensor,
    frames_apart: bool,
    beside: Tensor,
) -> _Grids:
    """Grids of tokens from grids of patches that are merged in squares."""
    grid = beside.new_zeros(0, 3) if given is None else given
    if grid.ndim != 2 or grid.shape[1] != 3 or grid.dtype not in (torch.int32, torch.int64):
        raise PositionsError(
            f"{_CALL}({name}=...) has shape {tuple(grid.shape)} and {grid.dtype}: one row of "
            "whole numbers (time, height, width) per image is needed, (n, 3)"
        )
    if reading_values():
        bad = (grid < 1).any(-1) | (grid[:, 1:] % merge != 0).any(-1)
        for row in bad.nonzero().view(-1).tolist()[:1]:
            raise PositionsError(
                f"{_CALL}({name}=..., merge={merge}): grid {row} is {grid[row].tolist()}: each "
                f"size must be >= 1, height and width multiples of merge={merge}"
            )
    steps = torch.as_tensor(frame_step, dtype=torch.float64, device=grid.device)
    if steps.ndim > 1 or (steps.ndim == 1 and steps.shape[0] != grid.shape[0]):
        raise PositionsError(
            f"{_CALL}(frame_step=...) has shape {tuple(steps.shape)}, but there are {len(grid)} "
            f"{name}: one number, or one for each, is needed"
        )
    if reading_values() and steps.numel() and not bool((steps >= 0).all()):
        raise PositionsError(f"{_CALL}(frame_step={steps.tolist()}): steps must be >= 0")
    tokens = torch.cat((grid[:, :1], grid[:, 1:] // merge), dim=-1).long()
    steps = steps.expand(tokens.shape[0])
    if frames_apart:
        frames = tokens[:, 0]
        steps, tokens = steps.repeat_interleave(frames), tokens.repeat_interleave(frames, dim=0)
        tokens = torch.cat((torch.ones_like(tokens[:, :1]), tokens[:, 1:]), dim=-1)
    return _Grids(name, tokens, steps)


def _check_types(token_types: Tensor, merge: int, text_after: str) -> None:
    if token_types.ndim != 2 or token_types.dtype not in (torch.int32, torch.int64):
        raise PositionsError(
            f"{_CALL}(token_types=...) has shape {tuple(token_types.shape)} and "
            f"{token_types.dtype}: (b, k_len) of whole numbers is needed, 0 for text, 1 for "
            "images, 2 for videos"
        )
    if text_after not in ("largest", "side") or merge < 1:
        raise PositionsError(
            f"{_CALL}(merge={merge}, text_after={text_after!r}): merge is at least 1, text_after "
            "'largest' or 'side'"
        )
    if reading_values() and token_types.numel():
        least, largest = (int(value) for value in token_types.aminmax())
        if least < 0 or largest > 2:
            raise PositionsError(
                f"{_CALL}(token_types=...) goes from {least} to {largest}: 0 is text, 1 an image, "
                "2 a video; for token ids give (ids == image_id).long() + 2 * (ids == video_id)"
            )
