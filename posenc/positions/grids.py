"""The images or the videos of a batch: which token is at which frame, row and column."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from posenc.errors import PositionsError, shown
from posenc.positions.tokens import reading_values

# Below it float64 tells all whole numbers apart.
LARGEST = 2**53
TextAfter = Literal["largest", "side"]


@dataclass(frozen=True, eq=False)
class Grids:
    """The images or the videos of a batch, in reading order.

    sizes  (n, 3) frames, rows and columns, in tokens
    steps  (n,) float64, how far time moves from frame to frame
    whole  times are rounded down to whole positions
    call   what was called, for errors
    """

    name: str
    sizes: Int[Tensor, "n 3"]
    steps: Float64[Tensor, "n"]
    whole: bool = True
    call: str = "Positions.mrope"

    def places(self, here: Bool[Tensor, "b t"]) -> tuple[Int[Tensor, "b t"], Int[Tensor, "b t"]]:
        """Of the tokens marked, read row by row: which of these each is in, and its index there."""
        counts = self.sizes.prod(-1)
        ends = counts.cumsum(0)
        rank = (here.reshape(-1).long().cumsum(0) - 1).view(here.shape).clamp(min=0)
        which = torch.searchsorted(ends, rank, right=True).clamp(max=counts.shape[0] - 1)
        return which, rank - (ends - counts)[which]

    def coordinates(
        self, which: Int[Tensor, "b t"], inside: Int[Tensor, "b t"]
    ) -> tuple[Tensor, Int[Tensor, "b t"], Int[Tensor, "b t"]]:
        """Time, row and column of token `inside` of each."""
        columns, area = self.sizes[:, 2][which], self.sizes[:, 1:].prod(-1)[which]
        frame = inside // area
        place = inside - frame * area
        row = place // columns
        return self._time(frame * self.steps[which]), row, place - row * columns

    def extent(self, text_after: TextAfter) -> Tensor:
        """How many positions each takes, (n,)."""
        side = self.sizes[:, 1].maximum(self.sizes[:, 2])
        if text_after == "side":
            return side
        return side.maximum(self._time((self.sizes[:, 0] - 1) * self.steps) + 1)

    def _time(self, time: Tensor) -> Tensor:
        # Seconds per frame are quotients, often of float32: 3 * (25 / 3) is 25, not 24.
        return (time + (time * 2.5e-7).clamp(max=0.25)).long() if self.whole else time

    def check_count(self, found: int) -> None:
        told = int(self.sizes.prod(-1).sum())
        if found != told:
            raise PositionsError(
                f"{self.call}: {found} tokens of {self.name}, but their grids hold {told}: give "
                "one grid per image in reading order, as (time, height, width) of patches, and the "
                "merge size of the model, by which patches become tokens"
            )

    def check_whole(
        self,
        here: Bool[Tensor, "b t"],
        runs: Int[Tensor, "b t"],
        which: Int[Tensor, "b t"],
        inside: Int[Tensor, "b t"],
    ) -> None:
        """Every image lies in one run: its later tokens are in that of the token before."""
        at = here.nonzero()
        run, index = runs[here], inside[here]
        cut = (run[1:] != run[:-1]) & (index[1:] > 0)
        for row, column in at[1:][cut].tolist()[:1]:
            of = int(which[row, column])
            raise PositionsError(
                f"{self.call}: number {of} of {self.name} is {self.sizes[of].tolist()} tokens, but "
                f"is cut after {int(inside[row, column])} of them, at row {row}, token {column}: "
                "grids must come in reading order, and the tokens of an image lie together, in "
                "one document"
            )


def grids(
    name: str,
    given: Tensor | None,
    merge: int,
    frame_merge: int,
    frame_step: float | Tensor,
    whole: bool,
    frames_apart: bool,
    beside: Tensor,
    call: str = "Positions.mrope",
) -> Grids:
    """Grids of tokens from grids of patches that are merged in squares, and in time."""
    grid = beside.new_zeros(0, 3) if given is None else given
    if grid.ndim != 2 or grid.shape[1] != 3 or grid.dtype not in (torch.int32, torch.int64):
        raise PositionsError(
            f"{call}({name}=...) has shape {tuple(grid.shape)} and {grid.dtype}: one row of "
            "whole numbers (time, height, width) per image is needed, (n, 3)"
        )
    merges = torch.tensor([frame_merge, merge, merge], device=grid.device)
    if reading_values():
        bad = ((grid < 1) | (grid % merges != 0)).any(-1)
        for row in bad.nonzero().view(-1).tolist()[:1]:
            times = f", frame_merge={frame_merge}" if frame_merge > 1 else ""
            raise PositionsError(
                f"{call}({name}=..., merge={merge}{times}): grid {row} is {grid[row].tolist()}: "
                f"each size must be >= 1, height and width multiples of merge={merge}, time of "
                f"frame_merge={frame_merge}"
            )
    try:
        steps = torch.as_tensor(frame_step, dtype=torch.float64, device=grid.device)
    except (TypeError, ValueError) as error:
        raise PositionsError(
            f"{call}(frame_step={shown(frame_step)}): one number, or one for each of {name}, is "
            "needed"
        ) from error
    if steps.ndim > 1 or (steps.ndim == 1 and steps.shape[0] != grid.shape[0]):
        raise PositionsError(
            f"{call}(frame_step=...) has shape {tuple(steps.shape)}, but there are {len(grid)} "
            f"{name}: one number, or one for each, is needed"
        )
    tokens = grid.long() // merges
    if reading_values() and steps.numel():
        # Times of more frames than these would not be counted in 64 bits.
        reach = steps * tokens[:, 0] if len(tokens) else steps
        if not bool(((steps >= 0) & (reach < LARGEST)).all()):
            raise PositionsError(
                f"{call}(frame_step={steps.tolist()}): steps must be >= 0, and times, which are "
                "steps * frames, below 2**53"
            )
    steps = steps.expand(tokens.shape[0])
    if frames_apart:
        frames = tokens[:, 0]
        steps, tokens = steps.repeat_interleave(frames), tokens.repeat_interleave(frames, dim=0)
        tokens = torch.cat((torch.ones_like(tokens[:, :1]), tokens[:, 1:]), dim=-1)
    return Grids(name, tokens, steps, whole, call)
