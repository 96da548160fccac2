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

    def append(self, new: Tensor) -> Tensor:
        """All tokens, the new ones written behind those that are held."""
        start, self.shown = self.shown, self.shown + new.shape[2]
        self.memory.narrow(2, start, new.shape[2]).copy_(new)
        return self.readable.narrow(2, 0, self.shown)


def joined(
    held: Tensor, new: Tensor, buffer: GrowingBuffer | None, most: int | None = None
) -> tuple[Tensor, GrowingBuffer | None]:
    """held and new in one tensor: by torch.cat where autograd records, else behind `held`."""
    differentiates = torch.is_grad_enabled() and (held.requires_grad or new.requires_grad)
    if torch.compiler.is_compiling() or differentiates or not plain(held, new):
        return torch.cat((held, new), dim=2), None
    return behind(held, new, buffer, most)


def behind(
    held: Tensor, new: Tensor, buffer: GrowingBuffer | None, most: int | None
) -> tuple[Tensor, GrowingBuffer]:
    """held and new in one tensor, new written behind `held`, which moves where it has no room."""
    if buffer is None or not buffer.can_append(held, new.shape[2]):
        buffer = GrowingBuffer(held, new.shape[2], most)
    return buffer.append(new), buffer
