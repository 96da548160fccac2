"""Several tables over the distance as one, and the gradient of one as that of each."""

from collections.abc import Sequence

import torch
from torch import Tensor

# Values (1|h, n) and the index of distance 0; clamped at both ends.
Table = tuple[Tensor, int]


def merged(tables: Sequence[Table]) -> Table | None:
    """The sum of tables, which reaches as far as any of them."""
    if not tables:
        return None
    total, zero = tables[0]
    for values, own in tables[1:]:
        past, length = max(zero, own), total.shape[1]
        future = max(length - zero, values.shape[1] - own)
        at = torch.arange(-past, future, device=values.device)
        total = (
            total[:, (at + zero).clamp(0, length - 1)]
            + (values[:, (at + own).clamp(0, values.shape[1] - 1)])
        )
        zero = past
    return total, zero


def part_of(grad: Tensor, zero: int, length: int, own: int) -> Tensor:
    """Of the gradient (1|h, m) of a merged table, that of a part with `length` values."""
    if (length, own) == (grad.shape[1], zero):
        return grad
    at = torch.arange(-zero, grad.shape[1] - zero, device=grad.device)
    part = grad.new_zeros(grad.shape[0], length)
    return part.index_add_(1, (at + own).clamp(0, length - 1), grad)


def of_heads(grad: Tensor, heads: int) -> Tensor:
    """A gradient (1|h, ...) summed over the heads that share one tensor."""
    return grad.sum(0, keepdim=True) if heads == 1 and grad.shape[0] > 1 else grad
