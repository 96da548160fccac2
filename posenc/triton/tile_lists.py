"""Which tiles meet where positions do not follow from indices: packed, padded, or told one by one.

Told from the least and greatest position, order and document of each tile, so that some tiles
without a visible pair are kept, and without asking the device, so that no launch waits.
"""

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from posenc.triton.kernel_args import Inputs, KernelArgs

# The order of a list: in `posenc.triton.spans`.
_FAR, _NEAR, _MASKED, _HIDDEN = range(4)


def made_for(x: Inputs, backward: bool) -> list[Tensor]:
    """The lists of the forward pass, of queries, and of the backward pass, of queries and keys.

    Each is entries (1|b, tiles, tiles of the others) and ends (1|b, tiles, 3), int32.
    """
    return lists_of(KernelArgs(x), backward)


def lists_of(args: KernelArgs, backward: bool) -> list[Tensor]:
    """The same for arguments that may reach and have tiles in a way of their own."""
    lists = _of(*tile_kinds(args, *args.blocks("forward")[:2]))
    if backward:
        lists += _of(*tile_kinds(args, *args.blocks("queries")[:2]))
        lists += _of(*(told.mT for told in tile_kinds(args, *args.blocks("keys")[:2])))
    return lists


def _of(kinds: Tensor, ahead: Tensor) -> list[Tensor]:
    order = kinds.argsort(dim=-1, stable=True)
    entries = 2 * order + ahead.gather(-1, order)
    ends = torch.stack([(kinds <= kind).sum(-1) for kind in (_FAR, _NEAR, _MASKED)], dim=-1)
    return [entries.int().contiguous(), ends.int().contiguous()]


def tile_kinds(args: KernelArgs, bm: int, bn: int) -> tuple[Tensor, Tensor]:
    """Of each tile (1|b, query tiles, key tiles) its kind, and whether it lies in the future."""
    x = args.inputs
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid = x.places
    q_low, q_high, k_low, k_high = _of_both(q_order, k_order, bm, bn)
    least, most = (end[:, None] for end in _ends(k_valid.long(), bn))
    q_whole, k_whole = _whole(args.q_len, bm, q_at), _whole(args.k_len, bn, q_at)
    some, every = most > 0, (least > 0) & q_whole[:, None] & k_whole
    if x.causal:
        some = some & ((k_low <= q_high) | _below(k_low, x.prefix))
        every = every & ((k_high <= q_low) | _below(k_high, x.prefix))
    if x.width:
        near = (k_low - q_high < x.width) & (q_low - k_high < x.width)
        some = some & (near | _below(k_low, x.sinks))
        near = (k_high - q_low < x.width) & (q_high - k_low < x.width)
        every = every & (near | _below(k_high, x.sinks))
    q_low, q_high, k_low, k_high = _of_both(q_document, k_document, bm, bn)
    some = some & (k_low <= q_high) & (q_low <= k_high)
    every = every & (q_low == k_high) & (k_low == q_high)
    q_low, q_high, k_low, k_high = _of_both(q_at, k_at, bm, bn)
    behind, ahead = args.reach
    in_future = k_low - q_high >= ahead
    far = in_future | (k_high - q_low <= -behind)
    if not args.by_distance:
        far = torch.ones_like(far)
    kinds = torch.where(far, _FAR, _NEAR).where(every, _MASKED).where(some, _HIDDEN)
    shape = args.rows, *kinds.shape[1:]
    return kinds.expand(shape), (in_future & (k_high - q_low > -behind)).expand(shape)


def _below(order: Tensor, count: int) -> Tensor:
    """Orders may be negative, which is below a count of 0 too."""
    return order < count if count else torch.zeros_like(order, dtype=torch.bool)


def _whole(length: int, block: int, like: Tensor) -> Tensor:
    tiles = torch.arange(1, triton.cdiv(length, block) + 1, device=like.device)
    return tiles * block <= length


def _of_both(q: Tensor, k: Tensor, bm: int, bn: int) -> Sequence[Tensor]:
    """The least and greatest of each tile of queries (1|b, m, 1) and of keys (1|b, 1, n)."""
    return [*(end[:, :, None] for end in _ends(q, bm)), *(end[:, None] for end in _ends(k, bn))]


def _ends(x: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """The least and greatest entry of every tile of x (1|b, t), each (1|b, tiles)."""
    short = -x.shape[-1] % block
    if short:
        x = torch.cat((x, x[:, -1:].expand(-1, short)), dim=1)
    return x.unflatten(1, (-1, block)).aminmax(dim=2)
