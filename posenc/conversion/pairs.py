"""Where each dimension of a head goes when its pairs change their layout; plain Python, no torch.

With r = rotary_dim / 2, pair i is (start + i, start + r + i) in layout "half" and
(start + 2i, start + 2i + 1) in layout "interleaved"; the other dimensions stay where they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from posenc.errors import SettingError, even

if TYPE_CHECKING:
    from posenc.terms import Layout

LAYOUTS = ("half", "interleaved")
ORDERS = ("concatenated", "grouped")


@dataclass(frozen=True)
class FusedHeads:
    """The heads of a matrix that holds queries, keys and values, all of one head dimension.

        "concatenated"    every query head, then every key head, then every value head (Phi-3)
        "grouped"         for each key head: its queries, it, its value (GPT-NeoX, Falcon)

    kv_heads is `heads` unless given. Raises SettingError where heads is no multiple of kv_heads.
    """

    heads: int
    kv_heads: int | None = None
    order: Literal["concatenated", "grouped"] = "concatenated"

    def __post_init__(self) -> None:
        if self.heads < 1 or self._keys < 1 or self.heads % self._keys:
            raise SettingError(f"{self!r}: heads must be a positive multiple of kv_heads")
        if self.order not in ORDERS:
            raise SettingError(f"{self!r}: order is 'concatenated' or 'grouped'")

    @property
    def _keys(self) -> int:
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def turns(self) -> tuple[bool, ...]:
        """Of each head along the matrix, whether it is one of a query or a key."""
        if self.order == "concatenated":
            return (True,) * (self.heads + self._keys) + (False,) * self._keys
        return ((True,) * (self.heads // self._keys + 1) + (False,)) * self._keys


@dataclass(frozen=True)
class Change:
    """A change of layout within heads of `head_dim` dimensions, of which `rotary_dim` turn.

    `start` is the first dimension that turns; a negative one counts from the end of the head.
    """

    source: "Layout"
    target: "Layout"
    head_dim: int
    rotary_dim: int | None = None
    start: int = 0

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            if getattr(self, name) not in LAYOUTS:
                raise SettingError(f"{self!r}: {name} is 'half' or 'interleaved'")
        named = "head_dim" if self.rotary_dim is None else "rotary_dim"
        turned = even("convert_layout", named, self.turned)
        if self.first < 0 or self.first + turned > self.head_dim:
            raise SettingError(
                f"{self!r}: {turned} dimensions from {self.start} on do not fit into a head of "
                f"{self.head_dim}"
            )

    @property
    def turned(self) -> int:
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    @property
    def first(self) -> int:
        """The first dimension that turns, counted from the beginning of the head."""
        return self.start if self.start >= 0 else self.start + self.head_dim

    @property
    def moves(self) -> tuple[tuple[slice, slice], ...]:
        """(to, from) slices along a head, such that new[to] = old[from] fills it."""
        start, end = self.first, self.first + self.turned
        middle = start + self.turned // 2
        halves = slice(start, middle), slice(middle, end)
        alternating = slice(start, end, 2), slice(start + 1, end, 2)
        by_layout = {"half": halves, "interleaved": alternating}
        around = ((slice(0, start),) * 2, (slice(end, self.head_dim),) * 2)
        inside = zip(by_layout[self.target], by_layout[self.source], strict=True)
        return tuple(move for move in (*around, *inside) if move[0].start < move[0].stop)

    @property
    def order(self) -> list[int]:
        """Of each dimension of the new head, the one of the old head that it is."""
        order = list(range(self.head_dim))
        old = tuple(order)
        for new_place, old_place in self.moves:
            order[new_place] = old[old_place]
        return order


def rows(change: Change, count: int, turns: tuple[bool, ...]) -> Iterator[int]:
    """Of each row of a matrix of `count` heads, the row of the old matrix that it is."""
    order = change.order
    for head in range(count):
        first = head * change.head_dim
        dimensions = order if turns[head % len(turns)] else range(change.head_dim)
        yield from (first + dimension for dimension in dimensions)
