"""Where each dimension of a head goes when its pairs change their layout; plain Python, no torch.

With r = rotary_dim / 2, pair i is (start + i, start + r + i) in layout "half" and
(start + 2i, start + 2i + 1) in layout "interleaved"; the other dimensions stay where they are.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from posenc.errors import SettingError, even, is_whole, whole

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
        whole("FusedHeads", heads=self.heads, kv_heads=self._keys)
        if self.heads % self._keys:
            raise SettingError(f"{self!r}: heads must be a positive multiple of kv_heads")
        if self.order not in ORDERS:
            raise SettingError(f"{self!r}: order is 'concatenated' or 'grouped'")

    @property
    def _keys(self) -> int:
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def rotated(self) -> tuple[bool, ...]:
        """Of each head along the matrix, whether it is one of a query or a key."""
        if self.order == "concatenated":
            return (True,) * (self.heads + self._keys) + (False,) * self._keys
        return ((True,) * (self.heads // self._keys + 1) + (False,)) * self._keys


@dataclass(frozen=True)
class Change:
    """A change of layout within heads of `head_dim` dimensions, of which `rotary_dim` rotate.

    `start` is the first dimension that rotates; a negative one counts from the end of the head.
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
        count = even("convert_layout", named, self._count)
        whole("convert_layout", head_dim=self.head_dim)
        if not is_whole(self.start) or self._first < 0 or self._first + count > self.head_dim:
            raise SettingError(
                f"{self!r}: {count} dimensions from {self.start} on do not fit into a head of "
                f"{self.head_dim}"
            )

    @property
    def _count(self) -> int:
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    @property
    def _first(self) -> int:
        return self.start if self.start >= 0 else self.start + self.head_dim

    def misfit(self, rows: int, fused: FusedHeads | None) -> str | None:
        """Why so many rows are not such heads, to be said after their number."""
        count, rest = divmod(rows, self.head_dim)
        if fused is None:
            return f"are not heads of {self.head_dim}" if rest else None
        if not rest and count == len(fused.rotated):
            return None
        return f"are not {fused!r}, {len(fused.rotated)} heads of {self.head_dim}"

    def moves(self, rotated: tuple[bool, ...]) -> list[tuple[slice, slice]]:
        """Along a matrix of as many heads, where rows go and which they are: (new, old) slices.

        Rows that no slice names stay where they are.
        """
        first, middle, end = (self._first + self._count * part // 2 for part in range(3))
        pairs = {
            "half": (slice(first, middle), slice(middle, end)),
            "interleaved": (slice(first, end, 2), slice(first + 1, end, 2)),
        }
        return [
            (_behind(to, head * self.head_dim), _behind(at, head * self.head_dim))
            for head, rotates in enumerate(rotated)
            if rotates
            for to, at in zip(pairs[self.target], pairs[self.source], strict=True)
        ]

    def rows(self, rotated: tuple[bool, ...]) -> list[int]:
        """Of each row of a matrix of as many heads, the row of the old matrix that it is."""
        stay = range(self.head_dim * len(rotated))
        order = list(stay)
        for new, old in self.moves(rotated):
            order[new] = stay[old]
        return order


def _behind(rows: slice, count: int) -> slice:
    return slice(rows.start + count, rows.stop + count, rows.step)
