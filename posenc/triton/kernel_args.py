"""What the attention kernels are told: sizes, biases, positions, and what they may skip."""

import math
from typing import NamedTuple

import torch
import triton
from torch import Tensor

LOG2_E = math.log2(math.e)
# What differs from call to call, and is to compile no kernel anew.
LENGTHS = ("q_len", "k_len", "table_stride", "size", "zero", "map_stride", "at_stride")
LENGTHS += ("heads", "group", "lowest", "count")


class Inputs(NamedTuple):
    """What `posenc::triton_attend` takes, in the order of SCHEMA.

    q, k, v       (b, h, tq, d), (b, g, tk, d), (b, g, tk, e) of one dtype
    table         (1|h, n), differentiable; row `zero` is of distance 0, beyond its ends it is flat
    past, future  (h,): score -= slope * |distance|; no gradient
    places        coordinates of queries and keys, their orders, their documents, and which keys are
                  valid (bool), each (1|b, t); empty where `plain`
    width         of the window; 0 is none
    plain         keys count from 0, and the queries are the last of them
    sink          (h,), beside the scores of a row, differentiable
    lse           whether the log of the sum is read too
    """

    q: Tensor
    k: Tensor
    v: Tensor
    table: Tensor | None
    past: Tensor | None
    future: Tensor | None
    places: list[Tensor]
    zero: int
    scale: float
    causal: bool
    width: int
    sinks: int
    prefix: int
    plain: bool
    sink: Tensor | None = None
    lse: bool = False

    @property
    def exact(self) -> torch.dtype:
        """The dtype of sums."""
        return torch.promote_types(self.q.dtype, torch.float32)


SCHEMA = (
    "Tensor q, Tensor k, Tensor v, Tensor? table, Tensor? past, Tensor? future, Tensor[] places, "
    "SymInt zero, float scale, bool causal, SymInt width, SymInt sinks, SymInt prefix, bool plain, "
    "Tensor? sink, bool lse"
)


def exact_scale(x: Inputs) -> Inputs:
    """The same with a scale that float32 holds in units of log 2: so Triton passes every number.

    In float64 q is multiplied instead.
    """
    if x.q.dtype != torch.float64:
        return x
    return x._replace(q=x.q * (x.scale * LOG2_E), scale=1 / LOG2_E)


class KernelArgs:
    """The arguments that all kernels of one call share."""

    def __init__(self, x: Inputs) -> None:
        self.inputs = x
        self.batch, self.heads, self.q_len, self.dim = x.q.shape
        self.k_len, self.value_dim = x.k.shape[2], x.v.shape[3]
        self.group = self.heads // x.k.shape[1]
        # A missing tensor is passed as q, which is then not read.
        table, past, future, self.sink = (
            x.q if bias is None else (bias.detach().to(x.exact) * LOG2_E).contiguous()
            for bias in (x.table, x.past, x.future, x.sink)
        )
        size = 0 if x.table is None else x.table.shape[-1]
        stride = 0 if x.table is None or x.table.shape[0] == 1 else size
        self.bias = (table, stride, size, x.zero, past, future)
        self.rows = max((place.shape[0] for place in x.places), default=1)
        places = [place.expand(self.rows, -1).contiguous() for place in x.places] or [x.q] * 7
        self.places = (*places, int(self.rows > 1))
        self.strides = (*x.q.stride(), *x.k.stride(), *x.v.stride())
        self.sizes = (self.heads, self.group, self.q_len, self.k_len)
        self.constants = {
            "DIM": self.dim,
            "VALUE_DIM": self.value_dim,
            "DP": max(16, triton.next_power_of_2(self.dim)),
            "EP": max(16, triton.next_power_of_2(self.value_dim)),
            "CAUSAL": x.causal,
            "WIDTH": x.width,
            "SINKS": x.sinks,
            "PREFIX": x.prefix,
            "PLAIN": x.plain,
            "TABLE": x.table is not None,
            "SLOPE": x.past is not None,
            # A query that sees only keys before it may add slope * k: slope * (k - q) differs from
            # that by one number per row, which softmax ignores; its sum and a sink do not.
            "KEY_ONLY": x.plain and x.causal and x.prefix == 0 and not x.lse and x.sink is None,
            "PRECISION": precision_of(x.q),
        }

    def blocks(self, backward: bool) -> tuple[int, int, int, int]:
        """Queries and keys per tile, warps and pipeline stages."""
        return blocks_for(max(self.dim, self.value_dim), self.inputs.q.dtype, backward)

    def near_diagonals(self, block: int) -> tuple[int, int]:
        """The first tile diagonal that holds a distance of row 1 or later, and their number.

        Row 0 of a table, the far past, needs none: its gradient follows from the others.
        """
        shift = self.k_len - self.q_len
        lowest = max(1 - triton.cdiv(self.q_len, block), (1 - self.inputs.zero + shift) // block)
        highest = triton.cdiv(self.k_len, block) - 1
        if self.inputs.causal and self.inputs.prefix == 0:
            # Its first pair is k - q = step * block - (block - 1) - shift, which must not be > 0.
            highest = min(highest, (shift + block - 1) // block)
        return lowest, max(0, highest - lowest + 1)


def precision_of(q: Tensor) -> str:
    if q.dtype == torch.bfloat16 and triton.knobs.runtime.interpret:
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
    x = args.inputs
    if x.plain:
        return x.q, 0
    _, _, q_order, k_order, q_document, k_document, k_valid = x.places
    (q_low, q_high), (k_low, k_high) = _ends(q_order, bm), _ends(k_order, bn)
    q_low, q_high = q_low[:, :, None], q_high[:, :, None]
    k_low, k_high = k_low[:, None], k_high[:, None]
    seen = _ends(k_valid.long(), bn)[1][:, None] > 0
    if x.causal:
        past = k_low <= q_high
        seen = seen & (past | (k_low < x.prefix) if x.prefix else past)
    if x.width:
        near = (k_low - q_high < x.width) & (q_low - k_high < x.width)
        seen = seen & (near | (k_low < x.sinks) if x.sinks else near)
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
