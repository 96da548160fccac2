"""The launches of attention: the forward pass, and the backward pass of queries and of keys."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from posenc.triton.forward import forward_kernel
from posenc.triton.kernel_args import LOG2_E, Inputs, KernelArgs, settings_of
from posenc.triton.key_gradient import key_kernel
from posenc.triton.launch import Launch
from posenc.triton.query_gradient import query_kernel
from posenc.triton.table_gradient import TableSums
from posenc.triton.tile_lists import made_for


class BackwardPass:
    """The launches of a backward pass, for tensors like those it is made for, which it lets go.

    written  out, dout, dq, dk and dv, for their strides
    scales   of scores in units of log 2, and of the gradients of q and k
    lse      whether the log of the sum has a gradient, and table whether the table has
    """

    def __init__(
        self,
        x: Inputs,
        written: Sequence[Tensor],
        scales: tuple[float, float],
        *,
        lse: bool,
        table: bool,
    ) -> None:
        out, dout, dq, dk, dv = written
        args, lists = KernelArgs(x), _lists(x, backward=True)
        bm, bn, *_ = args.blocks("queries")
        self.table = TableSums(args, bm, bn) if table else None
        whole = [(0, -(-args.q_len // bm), 0, 0)]
        self.turns = whole if self.table is None else self.table.turns
        self.queries = [
            _query_launch(args, lists, (out, dout, dq), scales, turn, lse=lse, sums=table)
            for turn in self.turns
        ]
        self.keys = _key_launch(args, lists, (dout, dk, dv), scales)

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, dout: Tensor, dq: Tensor, dk: Tensor,
        dv: Tensor, lse: Tensor, of_lse: Tensor, delta: Tensor, of_keys: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Sums along diagonals and those beyond, for `table.gradient`, where a table has one.

        of_lse   the gradient of the log of the sum, of_keys what offsets of keys get; lse where
                 they are not asked for
        """
        line = beyond = lse
        for turn, launch in zip(self.turns, self.queries, strict=True):
            sums = ahead = lse
            if self.table is not None:
                sums, ahead = self.table.empty(turn, lse)
            launch(q, k, v, out, dout, dq, lse, of_lse, delta, sums, ahead)
            if self.table is not None:
                sums, ahead = sums.sum((0, 2)), ahead.sum((0, 2))
                line, beyond = (sums, ahead) if turn[0] == 0 else (line + sums, beyond + ahead)
        self.keys(q, k, v, dout, dk, dv, lse, delta, of_keys)
        return line, beyond


def forward_launch(x: Inputs, out: Tensor) -> Launch:
    """Of q, k, v, out and lse."""
    args = KernelArgs(x)
    blocks = args.blocks("forward")
    rest = (
        *args.strides, *out.stride(), *args.bias, *args.reach, args.sink, *args.offsets,
        *args.places, *_lists(x)[:2], x.scale * LOG2_E, *args.sizes,
    )  # fmt: skip
    settings = args.constants | settings_of(blocks)
    settings |= {"SINK": x.sink is not None, "RISING": x.scale >= 0}
    # In one dimension, for the others end at 65,535.
    programs = -(-args.q_len // blocks[0]) * args.batch * args.heads
    return Launch(forward_kernel, programs, x.q, rest, settings)


def _query_launch(
    args: KernelArgs,
    lists: Sequence[Tensor],
    written: Sequence[Tensor],
    scales: tuple[float, float],
    part: tuple[int, int, int, int],
    *,
    lse: bool,
    sums: bool,
) -> Launch:
    """Of q, k, v, out, dout, dq, lse, of_lse, delta, sums and ahead.

    written  out, dout and dq, for their strides
    part     the first tile and how many, the lowest diagonal and how many
    """
    blocks = args.blocks("queries")
    strides = [n for x in written for n in x.stride()]
    rest = (
        *args.strides, *strides, *_shared(args), *lists[2:4], *part, *scales, *args.sizes
    )  # fmt: skip
    settings = args.constants | settings_of(blocks) | {"LSE": lse, "SUMS": sums}
    programs = part[1] * args.batch * args.heads
    return Launch(query_kernel, programs, args.inputs.q, rest, settings)


def _key_launch(
    args: KernelArgs,
    lists: Sequence[Tensor],
    written: Sequence[Tensor],
    scales: tuple[float, float],
) -> Launch:
    """Of q, k, v, dout, dk, dv, lse, delta and of_keys; `written` is dout, dk and dv."""
    blocks = args.blocks("keys")
    strides = [n for x in written for n in x.stride()]
    rest = *args.strides, *strides, *_shared(args), *lists[4:6], *scales, *args.sizes
    settings = args.constants | settings_of(blocks)
    programs = -(-args.k_len // blocks[1]) * args.batch * args.heads // args.group
    return Launch(key_kernel, programs, args.inputs.q, rest, settings)


def _shared(args: KernelArgs) -> tuple[Any, ...]:
    return *args.bias, *args.reach, *args.offsets, *args.places


def _lists(x: Inputs, backward: bool = False) -> Sequence[Tensor]:
    """Lists of tiles, of which plain positions read none."""
    if x.plain:
        return [x.q] * 6
    return x.lists if len(x.lists) > 2 * backward else made_for(x, backward)
