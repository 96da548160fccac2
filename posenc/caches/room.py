"""Keys or values that grow token by token, in memory with room for more."""

import torch
from torch import Tensor

from posenc.tracing import plain

# A part of what is held, so that n tokens move a constant number of times each.
_PART, _LEAST = 8, 64


class Room:
    """Memory (b, g, tokens + room, d) whose first tokens are held.

    What a tensor has once shown is never written again: two caches that were copied from one, or a
    cache that was put back, go on in memory of their own.
    """

    def __init__(self, held: Tensor, new: int, most: int | None) -> None:
        count = held.shape[2] + new
        size = count + max(_LEAST, count // _PART)
        size = size if most is None else max(count, min(size, most))
        self.memory = held.new_empty((*held.shape[:2], size, held.shape[3]))
        self.memory[:, :, : held.shape[2]] = held
        self.shown = held.shape[2]

    def takes(self, held: Tensor, new: int) -> bool:
        """Whether `new` tokens may be written right behind `held`."""
        # Memory of inference mode cannot be written outside of it.
        return (
            held.data_ptr() == self.memory.data_ptr()
            and held.stride() == self.memory.stride()
            and held.shape[2] == self.shown <= self.memory.shape[2] - new
            and (not self.memory.is_inference() or torch.is_inference_mode_enabled())
        )

    def with_(self, new: Tensor) -> Tensor:
        """All tokens, the new ones written behind those that are held."""
        start, self.shown = self.shown, self.shown + new.shape[2]
        self.memory[:, :, start : self.shown] = new
        # Of another version counter: later tokens change nothing that this tensor shows.
        return self.memory.data[:, :, : self.shown]


def joined(
    held: Tensor, new: Tensor, room: Room | None, most: int | None = None
) -> tuple[Tensor, Room | None]:
    """held and new in one tensor, by torch.cat or, where nobody differentiates, behind `held`.

    most  how many tokens there will ever be, where that is known
    """
    differentiates = torch.is_grad_enabled() and (held.requires_grad or new.requires_grad)
    if torch.compiler.is_compiling() or differentiates or not plain(held, new):
        return torch.cat((held, new), dim=2), None
    if room is None or not room.takes(held, new.shape[2]):
        room = Room(held, new.shape[2], most)
    return room.with_(new), room
