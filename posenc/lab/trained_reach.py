"""How far training took a model: the largest position and distance that it told apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posenc.analysis import measure
from posenc.encoding import Encoding
from posenc.errors import PosencError, UnsupportedError

# Numbers that are the same but for rounding, relative to the largest.
NEAR = 1e-9


@dataclass(frozen=True)
class TrainedReach:
    """What inputs of the train length show of an encoding, in tokens; None where it has none.

    position   the last one whose vector is another than the one before it
    distance   the last one between tokens that see each other, of which the encoding says
               something else than of the one before it: past a window nothing is seen, and past a
               clip, a last bucket or a zone everything is alike
    """

    position: int | None
    distance: int | None


def trained_reach(encodings: Sequence[Encoding], train_length: int) -> TrainedReach:
    """Measured on the encodings themselves, with the weights that they have.

    Of several that work together, one tells positions apart that another does not, and distances
    end where the first of them ends.
    """
    reaches = [_reach(encoding, train_length) for encoding in encodings]
    positions = [reach.position for reach in reaches if reach.position is not None]
    distances = [reach.distance for reach in reaches if reach.distance is not None]
    return TrainedReach(max(positions, default=None), min(distances, default=None))


def _reach(encoding: Encoding, train_length: int) -> TrainedReach:
    try:
        with torch.random.fork_rng(devices=[]):
            visible = measure.budget(encoding, train_length, train_length).largest_distance
            positions = _last_change(measure.position_table, encoding, train_length)
            distances = _last_change(measure.distance_table, encoding, train_length)
    except PosencError:
        return TrainedReach(None, None)
    return TrainedReach(positions, visible if distances is None else min(visible, distances))


def _last_change(
    table: Callable[[Encoding, Any], Tensor], encoding: Encoding, length: int
) -> int | None:
    """The last row of a table that differs from the one before it; None without a table."""
    try:
        rows = table(encoding, length)
    except UnsupportedError:
        return None
    steps = rows.diff(dim=0).abs().amax(dim=-1)
    changed = (steps > NEAR * rows.abs().max().clamp(min=1)).nonzero().flatten()
    return int(changed[-1]) + 1 if len(changed) else 0
