"""What the attention kernels are told: sizes, biases, positions, and what they may skip."""

import math
from typing import NamedTuple

import torch
import triton
from torch import Tensor

# Of the places, in this order.
PLACES = ("q", "k", "q_order", "k_order", "q_document", "k_document", "k_valid")


class Rules(NamedTuple):
    """What is visible; width 0 is no window. plain: keys count from 0, queries are the last."""

    causal: bool
    width: int
    sinks: int
    prefix: int
    plain: bool


class KernelArgs:
    """The arguments that all kernels of one call share.

    places  PLACES, each (1|b, t), whole numbers, k_valid bool; empty where positions are plain
    """

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        table: Tensor | None,
        past: Tensor | None,
        future: Tensor | None,
        places: list[Tensor],
        zero: int,
        rules: Rules,
    ) -> None:
        self.batch, self.heads, self.q_len, self.dim = q.shape
        self.k_len, self.value_dim = k.shape[2], v.shape[3]
        self.group = self.heads // k.shape[1]
        self.dtype, self.rules, self.given = q.dtype, rules, places
        self.size = 0 if table is None else table.shape[-1]
        self.zero, self.table_heads = zero, 1 if table is None else table.shape[0]
        exact = torch.promote_types(q.dtype, torch.float32)
        log2 = math.log2(math.e)
        # A missing tensor is passed as q, which is then not read.
        biases = [
            q if x is None else (x.detach().to(exact) * log2).contiguous()
            for x in (table, past, future)
        ]
        stride = 0 if self.table_heads == 1 else self.size
        self.bias = (biases[0], stride, self.size, zero, biases[1], biases[2])
        self.rows = max((x.shape[0] for x in places), default=1)
        each = [x.expand(self.rows, -1).contiguous() for x in places] or [q] * len(PLACES)
        self.places = (*each, int(self.rows > 1))
        self.sizes = (self.heads, self.group, self.q_len, self.k_len)
        self.constants = {
            "DIM": self.dim,
            "VALUE_DIM": self.value_dim,
            "DP": max(16, triton.next_power_of_2(self.dim)),
            "EP": max(16, triton.next_power_of_2(self.value_dim)),
            "CAUSAL": rules.causal,
            "WIDTH": rules.width,
            "SINKS": rules.sinks,
            "PREFIX": rules.prefix,
            "PLAIN": rules.plain,
            "TABLE": table is not None,
            "SLOPE": past is not None,
            # Behind every query only, a slope differs from one per key by what a row shares.
            "KEY_ONLY": rules.plain and rules.causal and rules.prefix == 0,
            "PRECISION": _precision(q),
        }

    def blocks(self, backward: bool) -> tuple[int, int, int, int]:
        """Queries and keys per tile, warps and pipeline stages."""
        return blocks_for(max(self.dim, self.value_dim), self.dtype, backward)

    def near_diagonals(self, block: int) -> tuple[int, int]:
        """The first tile diagonal that holds a distance of row 1 or later, and their number.

        Row 0 of a table, the far past, needs none: its gradient follows from the others.
        """
        shift = self.k_len - self.q_len
        lowest = max(1 - triton.cdiv(self.q_len, block), (1 - self.zero + shift) // block)
        highest = triton.cdiv(self.k_len, block) - 1
        if self.rules.causal and self.rules.prefix == 0:
            # Its first pair is k - q = step * block - (block - 1) - shift, which must not be > 0.
            highest = min(highest, (shift + block - 1) // block)
        return lowest, max(0, highest - lowest + 1)


def _precision(q: Tensor) -> str:
    if q.dtype == torch.bfloat16 and not q.is_cuda:
        return "widened"
    # Three TF32 products make one of float32; other dtypes are multiplied as they are.
    return "tf32x3" if q.dtype == torch.float32 else "ieee"


def blocks_for(dim: int, dtype: torch.dtype, backward: bool) -> tuple[int, int, int, int]:
    """Tiles that fit an H200's registers and shared memory; the backward's are square."""
    small = dtype in (torch.bfloat16, torch.float16)
    if backward:
        if small and dim <= 128:
            return (64, 64, 4 if dim <= 64 else 8, 2)
        return (32, 32, 4, 1) if dim <= 64 or small else (32, 32, 8, 1)
    if small:
        return (128, 64, 4 if dim <= 64 else 8, 3) if dim <= 128 else (64, 32, 8, 2)
    return (64, 32, 4 if dim <= 64 else 8, 2) if dim <= 128 else (32, 32, 8, 1)


def tile_map(args: KernelArgs, bm: int, bn: int) -> tuple[Tensor, int]:
    """Which tiles hold a visible pair, bool (1|b, query tiles, key tiles), and its batch stride.

    Told from the least and greatest order and document of each tile, so that some tiles without
    a visible pair are kept. Plain positions need none of it: the kernels count for themselves.
    """
    if args.rules.plain:
        return args.bias[0], 0
    rules = args.rules
    _, _, q_order, k_order, q_document, k_document, k_valid = args.given
    (q_low, q_high), (k_low, k_high) = _ends(q_order, bm), _ends(k_order, bn)
    q_low, q_high = q_low[:, :, None], q_high[:, :, None]
    k_low, k_high = k_low[:, None], k_high[:, None]
    seen = _ends(k_valid.long(), bn)[1][:, None] > 0
    if rules.causal:
        past = k_low <= q_high
        seen = seen & (past | (k_low < rules.prefix) if rules.prefix else past)
    if rules.width:
        near = (k_low - q_high < rules.width) & (q_low - k_high < rules.width)
        seen = seen & (near | (k_low < rules.sinks) if rules.sinks else near)
    (q_low, q_high), (k_low, k_high) = _ends(q_document, bm), _ends(k_document, bn)
    seen = seen & (k_low[:, None] <= q_high[:, :, None]) & (q_low[:, :, None] <= k_high[:, None])
    tiles = triton.cdiv(args.q_len, bm), triton.cdiv(args.k_len, bn)
    return seen.expand(args.rows, *tiles).contiguous(), tiles[0] * tiles[1]


def _ends(x: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """The least and greatest entry of every tile of x (1|b, t), each (1|b, tiles)."""
    short = -x.shape[-1] % block
    if short:
        x = torch.cat((x, x[:, -1:].expand(-1, short)), dim=1)
    return x.unflatten(1, (-1, block)).aminmax(dim=2)
