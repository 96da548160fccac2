"""The patches of an image or a video: coordinates of frame, row and column."""

import math
from collections.abc import Callable
from typing import Literal, TypeVar, get_args

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.errors import PositionsError, is_finite
from posenc.positions.drawing import uniform
from posenc.positions.tokens import Tokens, check_whole

Normalise = Literal["separate", "max", "min"]
_CALL = "Positions.grid"
P = TypeVar("P")


def grid(
    make: Callable[..., P],
    height: int,
    width: int,
    *,
    frames: int | None = None,
    leading: int = 0,
    normalise: Normalise | None = None,
    shift: float = 0.0,
    jitter: float = 1.0,
    rescale: float = 1.0,
    batch: int | None = None,
    causal: bool = False,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> P:
    """Patches row by row, as coordinates (1|b, t, axes) of (row, column) or (frame, row, column).

    height, width  numbers of patches; with frames, images of as many that follow each other
    leading        tokens of class and registers in front. They stand at 0 on every axis, where a
                   rotation does not turn them
    normalise      None: rows and columns count from 0. Else centres of patches in [-1, 1],
                   2 * (i + 1/2) / n - 1, where n is the size of the axis ("separate"), or the
                   larger or the smaller of all sizes ("max", "min")
    shift, jitter, rescale   for training, of normalised coordinates: each axis moves by a number
                   in [-shift, shift], then grows by one in [1/jitter, jitter], then all axes by
                   one in [1/rescale, rescale], both uniform in their logarithm
    batch          how many rows draw of their own; None: one draw for all of them
    generator      where the numbers come from: torch.Generator().manual_seed(seed)

    Example: `Positions.grid(14, 14, leading=5, normalise="separate")`, DINOv3's.

    Raises PositionsError for sizes or a batch below 1, and for draws without normalised
    coordinates.
    Source: Siméoni et al. 2025, arXiv:2508.10104, section 3.2, and its code.
    """
    check_whole(_CALL, height=height, width=width, frames=frames, leading=leading, batch=batch)
    sizes = (height, width) if frames is None else (frames, height, width)
    rows = 1 if batch is None else batch
    _check(sizes, leading, rows, normalise, shift, jitter, rescale)
    axes, extent = len(sizes), max(sizes)
    steps = [torch.arange(size, device=device) for size in sizes]
    if normalise is not None:
        shared = {"max": max(sizes), "min": min(sizes)}
        spans = sizes if normalise == "separate" else (shared[normalise],) * axes
        steps = [
            2 * (step.double() + 0.5) / span - 1 for step, span in zip(steps, spans, strict=True)
        ]
        far = max(2 * size / span - 1 for size, span in zip(sizes, spans, strict=True))
        extent = math.ceil((far + shift) * jitter * rescale) + 1
    ids = torch.stack(torch.meshgrid(*steps, indexing="ij"), dim=-1).view(1, -1, axes)
    if shift:
        ids = ids + shift * _signed((rows, 1, axes), generator, ids.device)
    for most, count in ((jitter, axes), (rescale, 1)):
        if most > 1:
            ids = ids * most ** _signed((rows, 1, count), generator, ids.device)
    if leading:
        ids = torch.cat((ids.new_zeros(ids.shape[0], leading, axes), ids), dim=1)
    tokens = Tokens(ids)
    return make(tokens, tokens, causal, extent)


def _signed(
    shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device
) -> Float64[Tensor, "..."]:
    """Numbers in [-1, 1)."""
    return 2 * uniform(shape, generator, device) - 1


def _check(
    sizes: tuple[int, ...],
    leading: int,
    rows: int,
    normalise: str | None,
    shift: float,
    jitter: float,
    rescale: float,
) -> None:
    if min(sizes) < 1 or leading < 0 or rows < 1:
        raise PositionsError(
            f"{_CALL}: a grid of {' x '.join(map(str, sizes))} patches behind {leading} tokens in "
            f"{rows} rows: sizes and batch are at least 1, leading at least 0"
        )
    if normalise not in (None, *get_args(Normalise)):
        raise PositionsError(
            f"{_CALL}(normalise={normalise!r}): 'separate', 'max', 'min' or None is needed"
        )
    drawn = f"{_CALL}(shift={shift}, jitter={jitter}, rescale={rescale}, normalise={normalise!r})"
    finite = all(map(is_finite, (shift, jitter, rescale)))
    if not finite or shift < 0 or jitter < 1 or rescale < 1:
        raise PositionsError(
            f"{drawn}: shift is at least 0, jitter and rescale are at least 1, all finite numbers"
        )
    if normalise is None and (shift, jitter, rescale) != (0, 1, 1):
        raise PositionsError(
            f"{drawn}: what is drawn moves coordinates in [-1, 1]: give normalise='separate'"
        )
