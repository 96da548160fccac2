"""Tokens to come, whose terms follow from their number alone and are made for many at once."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.encoding import Encoding
from posenc.lowering import Part
from posenc.positions import Positions, Tokens
from posenc.rotation import CosSin
from posenc.terms import Rotate
from posenc.torch_modes import Versions, altered, named, versions_of

# How many they are.
AHEAD = 64
# The scale of q . k, the dtype of the arithmetic, query heads, whether tokens are causal.
Settings = tuple[float, torch.dtype, int, bool]


class Step(NamedTuple):
    """What a token adds to its number: how it turns, what it sees, and what is added to its scores.

    turn   the rotation, and cos and sin (1|b, 1, 1, r); None where nothing turns
    first  the first key that it sees
    mask   (1|b, 1|h, 1, tk), added by key from there on; None where nothing is
    sink   (1|h,) float64, a logit beside those of the keys
    """

    turn: tuple[Rotate, CosSin] | None = None
    first: int = 0
    mask: Tensor | None = None
    sink: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Ahead:
    """Tokens to come, of encodings that read nothing of them but their number.

    parts      the encodings that are composed
    learned    their parameters, kept so that `versions` tells them from others
    settings   the scale of q . k, the dtype of the arithmetic, query heads, whether they are causal
    first      the number of the first of them
    positions  of them and of all before
    slots      those of all slots of a static cache, which count them
    rotation   None where nothing turns
    waves      cos and sin (1|b, 1, 1, r) of each that turns
    bias       what is added to the scores of the last of them, (1, 1|h, 1, tk)
    padding    -inf at keys of padding, else 0, (b, 1, 1, tk); None where there is none
    sink       the logit beside the scores of each, (1|h,) float64
    window     how many keys they see, themselves included, beside `sinks` first ones; None: all
    chunk      how many keys share a chunk, beyond which they see none; None: all
    plain      False where a number is not enough, and they go the long way
    """

    parts: tuple[Part, ...]
    learned: tuple[Tensor, ...]
    versions: Versions
    settings: Settings
    first: int
    positions: Positions
    slots: Positions | None = None
    rotation: Rotate | None = None
    waves: tuple[CosSin, ...] = ()
    bias: Tensor | None = None
    padding: Tensor | None = None
    sink: Tensor | None = None
    window: int | None = None
    sinks: int = 0
    chunk: int | None = None
    plain: bool = True

    def tells(self, parts: tuple[Part, ...], settings: Settings, number: int) -> bool:
        """Whether this token of these encodings, with what they learned by now, is one of them."""
        if self.settings != settings or len(self.parts) != len(parts):
            return False
        for one, other in zip(self.parts, parts, strict=True):
            if one is not other:
                return False
        if not self.first <= number < self.first + AHEAD:
            return False
        return not self.learned or self.versions == versions_of(learned_by(parts))

    def pads_as(self, placed: Positions) -> bool:
        """Whether rows have the padding that these positions tell of the tokens before."""
        one, other = self.positions.keys.valid, placed.keys.valid
        if one is None or other is None:
            return one is other
        return torch.equal(one[:, : placed.k_len], other)

    def placed(self, count: int) -> Positions:
        """Where the last of so many tokens is, and all of them."""
        keys = self.positions.keys
        last, held = _part(keys, count - 1, 1), _part(keys, 0, count)
        return altered(self.positions, queries=last, keys=held)

    def step(self, number: int) -> Step:
        """The terms of this token."""
        keys, turn = number + 1, None
        if self.rotation is not None:
            turn = self.rotation, self.waves[number - self.first]
        far = 0 if self.window is None else max(0, keys - self.window)
        if self.chunk is not None:
            far = max(far, number // self.chunk * self.chunk)
        first = 0 if self.sinks else far
        mask = None
        if self.bias is not None:
            # The same distances from a query that comes before.
            mask = self.bias.narrow(3, self.bias.shape[3] - keys + first, keys - first)
            if self.sinks < far and first < far:
                mask = mask.clone()
                mask.narrow(3, self.sinks, far - self.sinks).fill_(-torch.inf)
        if self.padding is not None:
            hidden = self.padding.narrow(3, first, keys - first)
            mask = hidden if mask is None else mask + hidden
        return Step(turn, first, mask, self.sink)


def learned_by(parts: tuple[Part, ...]) -> tuple[Tensor, ...]:
    """The parameters of these encodings."""
    return tuple(x for part in parts if isinstance(part, Encoding) for x in part.parameters())


def _part(tokens: Tokens, start: int, count: int) -> Tokens:
    """So many of these tokens, as a slice of them is."""
    told = {name: x for name, x in named(tokens).items() if x is not None}
    return altered(tokens, **{name: x.narrow(-1, start, count) for name, x in told.items()})
