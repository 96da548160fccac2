"""What tokens see in one forward pass of a transformers model, in posenc's words.

Letters: b batch, h heads, tq queries, tk keys.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from posenc.encoding import Encoding
from posenc.lowering import Lowered, Part, lower
from posenc.positions import Positions
from posenc.terms import DenseBias, Mask, Window


@dataclass(eq=False)
class Given:
    """What the forward pass that runs was given beside its tokens.

    ids (b, t) are its position_ids, where they say more than slots do; cache of_layer(number) gives
    posenc's own caches, where it has such.
    """

    ids: Tensor | None = None
    cache: Any = None


@dataclass(frozen=True, eq=False)
class Plan:
    """What posenc adds to the scores of a layer; layers of one number share their terms."""

    number: int = -1
    parts: tuple[Encoding, ...] = ()
    given: Given = field(default_factory=Given)

    @property
    def learns(self) -> bool:
        """Whether gradients flow into its terms."""
        return any(x.requires_grad for part in self.parts for x in part.parameters())


@dataclass(eq=False)
class Sight:
    """Who sees whom: made where transformers makes a mask, once per forward, read by every layer.

    positions are those of slots of the cache. seen (b, 1|h, tq, tk) says pair by pair who sees
    whom, for masks that no rule describes; numbers are added to the scores. ndim lets a sight pass
    for a mask of four dimensions, which transformers hands on as it is.
    """

    positions: Positions
    window: int | None = None
    seen: Tensor | None = None
    _lowered: dict[tuple[int, torch.dtype], Lowered] = field(default_factory=dict)

    ndim = 4

    def contiguous(self) -> "Sight":
        """Itself, as `generate` asks of every mask that it prepares."""
        return self

    def lowered(self, plan: Plan, dtype: torch.dtype) -> Lowered:
        """The terms of a plan and of the mask, made once for all layers of the plan."""
        # A checkpointed layer is computed again, and must then save what it saved before.
        if torch.is_grad_enabled() and plan.learns:
            return self._lower(plan, dtype)
        key = plan.number, dtype
        if key not in self._lowered:
            self._lowered[key] = self._lower(plan, dtype)
        return self._lowered[key]

    def _lower(self, plan: Plan, dtype: torch.dtype) -> Lowered:
        positions = self.positions
        if plan.parts and plan.given.ids is not None:
            positions = positions.at(plan.given.ids)
        return lower([*plan.parts, *self.mask()], positions, dtype=dtype)

    def mask(self) -> list[Part]:
        """What hides pairs beside causality, documents and padding."""
        parts: list[Part] = []
        if self.window is not None:
            parts.append(Mask(Window(self.window)))
        if self.seen is not None:
            bias = self.seen
            if bias.dtype == torch.bool:
                bias = torch.zeros_like(bias, dtype=torch.float32).masked_fill(~bias, -torch.inf)
            parts.append(DenseBias(bias))
        return parts
