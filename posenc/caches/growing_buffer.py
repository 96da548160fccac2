"""Keys or values that grow token by token, in memory that is larger than what is held."""

import torch
from torch import Tensor

from posenc.torch_modes import plain

# Growing by an eighth of what is held moves each token a constant number of times on average.
_PART, _LEAST = 8, 64


class GrowingBuffer:
    """Memory (b, g, size, d) whose first tokens are held; later ones are written behind them.

    What a tensor has once shown is never written again. So two caches that were copied from one,
    and a cache that was restored, go on in memory of their own.

    held  the tokens so far, (b, g, t, d)
    new   how many more are needed at once
    most  how many tokens there will ever be, where that is known
    """

    def __init__(self, held: Tensor, new: int, most: int | None) -> None:
        count = held.shape[2] + new
        size = count + max(_LEAST, count // _PART)
        size = size if most is None else max(count, min(size, most))
        self.memory = held.new_empty((*held.shape[:2], size, held.shape[3]))
        self.memory[:, :, : held.shape[2]] = held
        # Through .data, so that writing later tokens behind a view does not count as a change of
        # it: autograd may have saved it.
        self.readable = self.memory.data
        self.shown = held.shape[2]

    def can_append(self, held: Tensor, new: int) -> bool:
        """Whether `new` tokens may be written right behind `held`."""
        # Memory of inference mode cannot be written outside of it.
        return (
            held.data_ptr() == self.memory.data_ptr()
            and held.stride() == self.memory.stride()
            and held.shape[2] == self.shown <= self.memory.shape[2] - new
            and (not self.memory.is_inference() or torch.is_inference_mode_enabled())
        )

    def room(self, new: int) -> Tensor:
        """The memory right behind what is held, for so many more tokens."""
        return self.memory.narrow(2, self.shown, new)

    def hold(self, count: int) -> Tensor:
        """Hold so many tokens, from the first on, which this gives."""
        self.shown = count
        return self.readable.narrow(2, 0, count)


def joined(
    held: Tensor, new: Tensor, buffer: GrowingBuffer | None, most: int | None = None
) -> tuple[Tensor, GrowingBuffer | None]:
    """held and new in one tensor: by torch.cat where autograd records, else new is written behind
    `held`, which moves where it has no room.
    """
    differentiates = torch.is_grad_enabled() and (held.requires_grad or new.requires_grad)
    if torch.compiler.is_compiling() or differentiates or not plain(held, new):
        return torch.cat((held, new), dim=2), None
    buffer = with_room(held, new.shape[2], buffer, most)
    buffer.room(new.shape[2]).copy_(new)
    return buffer.hold(held.shape[2] + new.shape[2]), buffer


def with_room(
    held: Tensor, new: int, buffer: GrowingBuffer | None, most: int | None
) -> GrowingBuffer:
    """Memory that begins with `held` and has room for `new` tokens: this buffer, or a new one."""
    if buffer is not None and buffer.can_append(held, new):
        return buffer
    return GrowingBuffer(held, new, most)
