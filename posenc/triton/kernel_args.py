"""What the attention kernels are told: sizes, biases, positions, and what they may skip."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
import triton
from torch import Tensor
from triton.runtime import driver

from posenc.triton import power_of_two

LOG2_E = math.log2(math.e)
Kernel = Literal["forward", "queries", "keys"]
Blocks = tuple[int, int, int, int]
# What differs from call to call, and is to compile no kernel anew.
LENGTHS = ("q_len", "k_len", "table_stride", "size", "zero", "behind", "ahead", "offset_stride")
LENGTHS += ("at_stride", "heads", "group", "first_tile", "some_tiles", "lowest", "diagonals")


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
    q_offset, k_offset  (1|b, h, tq) and (1|b, h, tk), added to scores, differentiable; both or none
    lists         of tiles that meet, as `posenc.triton.tile_lists.made_for` tells them, or empty
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
    q_offset: Tensor | None = None
    k_offset: Tensor | None = None
    lists: Sequence[Tensor] = ()

    @property
    def exact(self) -> torch.dtype:
        """The dtype of sums."""
        return torch.promote_types(self.q.dtype, torch.float32)


SCHEMA = (
    "Tensor q, Tensor k, Tensor v, Tensor? table, Tensor? past, Tensor? future, Tensor[] places, "
    "SymInt zero, float scale, bool causal, SymInt width, SymInt sinks, SymInt prefix, bool plain, "
    "Tensor? sink, bool lse, Tensor? q_offset, Tensor? k_offset, Tensor[] lists"
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
        self.offsets = _offsets(x)
        self.strides = (*x.q.stride(), *x.k.stride(), *x.v.stride())
        self.sizes = (self.heads, self.group, self.q_len, self.k_len)
        self.constants = {
            "DIM": self.dim,
            "VALUE_DIM": self.value_dim,
            "DP": max(16, power_of_two(self.dim)),
            "EP": max(16, power_of_two(self.value_dim)),
            "CAUSAL": x.causal,
            "WIDTH": x.width,
            "SINKS": x.sinks,
            "PREFIX": x.prefix,
            "PLAIN": x.plain,
            "TABLE": x.table is not None,
            "SLOPE": x.past is not None,
            # A query that sees only keys before it may add slope * k: slope * (k - q) differs from
            # that by one number per row.
            "KEY_ONLY": x.past is not None and x.plain and x.causal and x.prefix == 0,
            "OFFSETS": x.k_offset is not None,
            "PRECISION": precision_of(x.q),
            "DIRECT": x.exact == torch.float32 and not triton.knobs.runtime.interpret,
        }

    def blocks(self, kernel: Kernel) -> Blocks:
        """Queries and keys per tile of a kernel, warps and pipeline stages."""
        by_table = self.inputs.table is not None
        return blocks_for(
            max(self.dim, self.value_dim), self.inputs.q.dtype, kernel,
            by_table=by_table, hopper=_is_hopper(),
        )  # fmt: skip

    @property
    def by_distance(self) -> bool:
        """Whether scores of a tile may differ by more than a number per query and one per key."""
        slopes = self.constants["SLOPE"] and not self.constants["KEY_ONLY"]
        return bool(self.constants["TABLE"] or slopes)

    @property
    def reach(self) -> tuple[int, int]:
        """Behind and ahead: from there on, tables are flat and slopes are of one side."""
        if self.inputs.table is None:
            return 0, 0
        behind, ahead = self.inputs.zero, self.bias[2] - 1 - self.inputs.zero
        return (behind, ahead) if self.inputs.past is None else (max(behind, 0), max(ahead, 0))


def _offsets(x: Inputs) -> tuple[Tensor, Tensor, int]:
    """Those of queries and of keys, in the dtype that they came in, and their batch stride."""
    if x.q_offset is None or x.k_offset is None:
        return x.q, x.q, 0
    rows = max(x.q_offset.shape[0], x.k_offset.shape[0])
    q, k = (one.detach().expand(rows, -1, -1).contiguous() for one in (x.q_offset, x.k_offset))
    return q, k, int(rows > 1)


def settings_of(tiles: Blocks) -> dict[str, Any]:
    """By which Triton compiles a kernel for these tiles."""
    bm, bn, warps, stages = tiles
    how = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
    return {"BM": bm, "BN": bn, **how}


def precision_of(q: Tensor) -> str:
    if q.dtype == torch.bfloat16 and triton.knobs.runtime.interpret:
        return "widened"
    # Three TF32 products make one of float32; other dtypes are multiplied as they are.
    return "tf32x3" if q.dtype == torch.float32 else "ieee"


def blocks_for(
    dim: int, dtype: torch.dtype, kernel: Kernel, *, by_table: bool, hopper: bool
) -> Blocks:
    """Queries and keys per tile, warps and pipeline stages.

    Those of Hopper, in 16 bits and to 128 dimensions, were the fastest of those timed on an H200;
    the others are as large as registers hold. Tiles of "queries" have a whole number of times as
    many queries as keys.
    """
    if dtype in (torch.bfloat16, torch.float16):
        if hopper and by_table and kernel == "forward" and 64 < dim <= 128:
            # A table's near tiles leave no registers for two programs to a multiprocessor.
            return 128, 64, 8, 3
        tiles = _HOPPER if hopper else _OLDER
        return tiles[next(width for width in tiles if dim <= width)][kernel]
    if kernel != "forward":
        # Of wider heads, more does not fit an A100's shared memory.
        return (16, 16, 4, 1) if dim > 128 else (32, 32, 4 if dim <= 64 else 8, 1)
    return (64, 32, 4 if dim <= 64 else 8, 2) if dim <= 128 else (32, 32, 8, 1)


_WIDE: dict[Kernel, Blocks] = {
    "forward": (64, 32, 8, 2),
    "queries": (64, 32, 8, 2),
    "keys": (32, 64, 8, 2),
}
# By the widest heads that they are for.
_HOPPER: dict[int, dict[Kernel, Blocks]] = {
    64: {"forward": (128, 64, 4, 3), "queries": (64, 64, 4, 3), "keys": (32, 128, 4, 2)},
    128: {"forward": (64, 64, 4, 3), "queries": (128, 64, 8, 3), "keys": (64, 128, 8, 1)},
    256: _WIDE,
}
_OLDER: dict[int, dict[Kernel, Blocks]] = {
    64: {"forward": (128, 64, 4, 3), "queries": (64, 64, 4, 2), "keys": (64, 64, 4, 2)},
    128: {"forward": (128, 64, 8, 3), "queries": (128, 32, 8, 2), "keys": (32, 128, 8, 2)},
    256: _WIDE,
}


def _is_hopper() -> bool:
    """Whether the current GPU is of compute capability 9 or above; in the interpreter, too."""
    if triton.knobs.runtime.interpret:
        return True
    return driver.active.get_current_target().arch >= 90
