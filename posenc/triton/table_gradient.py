"""The gradient of a table, of sums along the diagonals of tiles. All is added in a fixed order."""

import triton
import triton.language as tl
from torch import Tensor

from posenc.triton.kernel_args import KernelArgs
from posenc.triton.launch import Launch

# Sums may take as much memory as this many times q, or this many bytes; query tiles that need
# more take turns.
SHARE, BYTES = 4, 1 << 26
# Rows of a table that are added up at a time.
_BLOCK = 1024


class TableSums:
    """The sums that query tiles leave, in as many turns as memory asks, and what a table gets.

    turns  the first tile and how many, the lowest diagonal of tiles and how many
    """

    def __init__(self, args: KernelArgs, bm: int, bn: int) -> None:
        x = args.inputs
        assert x.table is not None
        lowest, diagonals = near_diagonals(args, bm, bn)
        tiles, at_once = -(-args.q_len // bm), tiles_at_once(args, diagonals, bm, bn)
        self.turns = [
            (first, min(at_once, tiles - first), lowest, diagonals)
            for first in range(0, tiles, at_once)
        ]
        self.rows, self.parts = (args.batch, args.heads), (diagonals, bm // bn + 1, bn)
        _, _, self.size, zero = args.bias[:4]
        # The row of the first diagonal, beyond the table's ends too.
        self.first = lowest * bn - bm - (args.k_len - args.q_len) + zero
        self.dtype, self.shared = x.table.dtype, x.table.shape[0] == 1
        self.launches: dict[bool, Launch] = {}

    def empty(self, turn: tuple[int, int, int, int], like: Tensor) -> tuple[Tensor, Tensor]:
        """For the sums of a turn (b, h, tiles, *parts), and for those far ahead (b, h, tiles)."""
        rows = *self.rows, turn[1]
        return like.new_zeros(*rows, *self.parts), like.new_empty(rows)

    def gradient(self, sums: Tensor, beyond: Tensor, of_rows: Tensor | None) -> Tensor:
        """Sums of all turns (h, *parts) as the gradient of the table (1|h, n).

        beyond   sums of all that is further in the future (h)
        of_rows  sums of the gradients of all scores (h), None where they are zero
        """
        heads, (count, parts, block) = self.rows[1], self.parts
        grad = sums.new_empty(heads, self.size, dtype=sums.dtype if self.shared else self.dtype)
        known = of_rows is not None
        if known not in self.launches:
            settings = {"PARTS": parts, "BN": block, "ROWS": known, "BLOCK": _BLOCK}
            settings["enable_fp_fusion"] = True
            rest = count, self.size, self.first
            self.launches[known] = Launch(table_kernel, heads, sums, rest, settings)
        self.launches[known](sums, beyond, beyond if of_rows is None else of_rows, grad)
        return grad.sum(0, keepdim=True).to(self.dtype) if self.shared else grad


@triton.jit(do_not_specialize=("count", "size", "first"))
def table_kernel(
    sums, beyond, of_rows, grad, count, size, first,
    PARTS: tl.constexpr, BN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A program per head."""
    head = tl.program_id(0).to(tl.int64)
    sums += head * count * PARTS * BN
    grad += head * size
    c = tl.arange(0, BLOCK)
    rest = tl.zeros((BLOCK,), sums.dtype.element_ty)
    for start in range(0, size - 1, BLOCK):
        row = start + c
        inner = (row > 0) & (row < size - 1)
        found = tl.where(inner, on_line(sums, row - first, count, PARTS, BN), 0.0)
        tl.store(grad + row, found.to(grad.dtype.element_ty), mask=inner)
        rest += found
    all_rest = tl.sum(rest, 0)
    if size > 1:
        # What is beyond the last row has its number, and is on the line too.
        last = tl.zeros((BLOCK,), sums.dtype.element_ty)
        for start in range(tl.maximum(size - 1 - first, 0), (count + PARTS - 1) * BN, BLOCK):
            last += on_line(sums, start + c, count, PARTS, BN)
        of_last = tl.sum(last, 0) + tl.load(beyond + head)
        tl.store(grad + size - 1, of_last.to(grad.dtype.element_ty))
        all_rest += of_last
    # What all gradients of scores add up to is known: this is what all the far past gets.
    of_first = -all_rest
    if ROWS:
        of_first += tl.load(of_rows + head)
    tl.store(grad, of_first.to(grad.dtype.element_ty))


@triton.jit
def on_line(sums, place, count, PARTS: tl.constexpr, BN: tl.constexpr):
    """Sums at places of the line of all diagonals of pairs, zero beyond its ends.

    The upper part of one diagonal of tiles and the lower part of the next are the same.
    """
    found = tl.zeros(place.shape, sums.dtype.element_ty)
    for part in tl.static_range(PARTS):
        diagonal = place // BN - part
        here = (place >= 0) & (diagonal >= 0) & (diagonal < count)
        at = (diagonal * PARTS + part) * BN + place % BN
        found += tl.load(sums + at, mask=here, other=0.0)
    return found


def near_diagonals(args: KernelArgs, bm: int, bn: int) -> tuple[int, int]:
    """Which diagonals of tiles are neither all of a table's row 0 nor all of its last: from, count.

    The tile (m, n) lies on n - m * bm / bn. What is before them has row 0, whose gradient follows
    from the others; what is beyond has the last.
    """
    x = args.inputs
    _, _, size, zero = args.bias[:4]
    shift = args.k_len - args.q_len
    lowest = (1 - -(-args.q_len // bm)) * (bm // bn)
    lowest = max(lowest, -((bn + zero - shift - 2) // bn))
    # The first pair of a tile is k - q = place * bn - (bm - 1) - shift.
    highest = min(-(-args.k_len // bn) - 1, (size - zero + shift + bm - 3) // bn)
    if x.causal and x.prefix == 0:
        highest = min(highest, (shift + bm - 1) // bn)
    return lowest, max(0, highest - lowest + 1)


def tiles_at_once(args: KernelArgs, diagonals: int, bm: int, bn: int) -> int:
    """How many query tiles may have their sums in memory at the same time."""
    x = args.inputs
    tiles = -(-args.q_len // bm)
    each = args.batch * args.heads * diagonals * (bm + bn) * x.exact.itemsize
    return max(1, min(tiles, max(SHARE * x.q.nbytes, BYTES) // max(1, each)))
