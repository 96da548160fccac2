"""The gradient of a table, of sums along the diagonals of tiles. All is added in a fixed order."""

from torch import Tensor

from posenc.triton.kernel_args import KernelArgs

# Sums may take as much memory as this many times q, or this many bytes; query tiles that need
# more take turns.
SHARE, BYTES = 4, 1 << 26


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


def gathered(
    sums: Tensor, beyond: Tensor, first: int, table: Tensor, of_rows: Tensor | None
) -> Tensor:
    """Sums along diagonals (h, diagonals, parts, bn) as the gradient of the table (1|h, n).

    beyond   sums of all that is further in the future (h)
    first    the table's row of the first diagonal, beyond its ends too
    of_rows  sums of the gradients of all scores (h), None where they are zero
    """
    heads, count, parts, block = sums.shape
    # The upper part of one diagonal of tiles and the lower part of the next are the same.
    line = sums.new_zeros(heads, count + parts - 1, block)
    for part in range(parts):
        line[:, part : part + count] += sums[:, :, part]
    line = line.flatten(1)
    size, length = table.shape[-1], line.shape[1]
    grad = sums.new_zeros(heads, size)
    begin, end = min(max(0, 1 - first), length), min(max(0, size - first), length)
    if end > begin:
        grad[:, first + begin : first + end] = line[:, begin:end]
    if size > 1:
        grad[:, -1] += line[:, max(begin, end) :].sum(1) + beyond
    # What all gradients of scores add up to is known: this is what all the far past gets.
    rest = grad[:, 1:].sum(1)
    grad[:, 0] = -rest if of_rows is None else of_rows - rest
    return (grad.sum(0, keepdim=True) if table.shape[0] == 1 else grad).to(table.dtype)
