"""Sequences within rows, as documents and padding part them: where one begins, and its length."""

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor


def changes(x: Shaped[Tensor, "b t"]) -> Bool[Tensor, "b t"]:
    """Whether an entry is another than the one before it in its row; the first is not."""
    if torch.compiler.is_compiling():
        # A graph of any number of tokens holds no size of one less, which of two tokens is 1.
        return x != torch.cat((x[:, :1], x), dim=1)[:, :-1]
    found = torch.zeros_like(x, dtype=torch.bool)
    found[:, 1:] = x[:, 1:] != x[:, :-1]
    return found


def length_of(at: Tensor, document: Tensor | None, valid: Tensor | None) -> Tensor:
    """The largest position + 1 in the own sequence of each token, (t,) or (b, t).

    Padding, batch mates and other documents are aside.
    """
    far = at.amax(dim=-1) if at.ndim == 3 else at
    for other in (document, valid):
        if other is not None:
            far, _ = torch.broadcast_tensors(far, other)
    rows = far.view(-1, far.shape[-1])
    if valid is not None:
        rows = torch.where(valid, rows, torch.zeros_like(rows))
    if document is None:
        return _counted(rows.amax(-1, keepdim=True)).expand(rows.shape).view(far.shape)
    of = document.expand(rows.shape)
    segment = changes(of).cumsum(-1)
    farthest = torch.zeros_like(rows).scatter_reduce(1, segment, rows, "amax")
    return _counted(farthest).gather(1, segment).view(far.shape)


def _counted(farthest: Tensor) -> Tensor:
    """The number of tokens up to a position, that of a fraction being the next whole one."""
    whole = farthest.ceil() if farthest.is_floating_point() else farthest
    return whole.long() + 1
