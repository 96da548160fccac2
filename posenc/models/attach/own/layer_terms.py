"""Attention by terms that a layer makes of its own weights, in each forward pass."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from posenc.attention import attend
from posenc.lowering import lower
from posenc.models.attach.sight import Sight
from posenc.terms import Term
from posenc.torch_modes import arithmetic


def attend_by(
    terms: Sequence[Term],
    attention: Any,
    number: int,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sight: Sight,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """posenc.attend of (b, h, t, d), shown to whom watches this attention, of layer `number`."""
    lowered = lower([*terms, *sight.mask()], sight.positions, dtype=arithmetic(q, k))
    out = attend(q, k, v, lowered, scale=scale, dropout=dropout)
    watch = getattr(attention, "posenc_watch", None)
    if watch is not None:
        watch(number, q, k, v, lowered, out, scale)
    return out
