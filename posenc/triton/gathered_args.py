"""What the kernels of gathered attention are told beside the others: bands by distance."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.triton.kernel_args import LOG2_E, SCHEMA, Blocks, Inputs, Kernel, KernelArgs


class Vectors(NamedTuple):
    """What `posenc::triton_gather` takes beside `Inputs`, in the order of VECTORS.

    by_query  (b, h, tq, n): content += by_query[i, clamp(distance + query_zero)], differentiable
    by_key    (b, h|g, tk, n): content += by_key[j, clamp(distance + key_zero)], differentiable
    by_value  (1|h, n, e): what each value has beside it, differentiable
    repeated  (1|b): the one place where several queries of a row may be, as those of padding are;
              only where positions are not plain, and read for the gradient of by_key

    All are of the dtype of q.
    """

    by_query: Tensor | None
    query_zero: int
    by_key: Tensor | None
    key_zero: int
    by_value: Tensor | None
    value_zero: int
    repeated: Tensor | None = None

    @property
    def ends(self) -> list[tuple[int, int]]:
        """Of each that is there, how far it reaches behind and ahead."""
        tensors = self.by_query, self.by_key, self.by_value
        sizes = [None if x is None else x.shape[1 if x.ndim == 3 else 3] for x in tensors]
        zeros = self.query_zero, self.key_zero, self.value_zero
        pairs = zip(sizes, zeros, strict=True)
        return [(zero, size - 1 - zero) for size, zero in pairs if size is not None]


VECTORS = (
    "Tensor? by_query, SymInt query_zero, Tensor? by_key, SymInt key_zero, "
    "Tensor? by_value, SymInt value_zero, Tensor? repeated"
)
GATHERED = f"{SCHEMA}, {VECTORS}"


def split(given: tuple[Any, ...]) -> tuple[Inputs, Vectors]:
    """The arguments of an operator, in the order of GATHERED."""
    return Inputs(*given[: -len(Vectors._fields)]), Vectors(*given[-len(Vectors._fields) :])


def exact_scales(x: Inputs, vectors: Vectors) -> tuple[Inputs, Vectors]:
    """Both as `exact_scale` has q: in float64 what is scaled comes scaled."""
    if x.q.dtype != torch.float64:
        return x, vectors
    factor = x.scale * LOG2_E
    query, key = (None if y is None else y * factor for y in (vectors.by_query, vectors.by_key))
    x = x._replace(q=x.q * factor, scale=1 / LOG2_E)
    return x, vectors._replace(by_query=query, by_key=key)


class GatheredArgs(KernelArgs):
    """The arguments that all kernels of one call share."""

    def __init__(self, x: Inputs, vectors: Vectors) -> None:
        super().__init__(x)
        self.vectors = vectors
        query, key, value = vectors.by_query, vectors.by_key, vectors.by_value
        # A missing tensor is passed as q, which is then not read.
        g, g_size = (x.q, 1) if query is None else (query.contiguous(), query.shape[-1])
        h, h_size = (x.q, 1) if key is None else (key.contiguous(), key.shape[-1])
        sharing = 1 if key is None else self.heads // key.shape[1]
        self.bands = g, g_size, vectors.query_zero, h, h_size, vectors.key_zero, sharing
        again = vectors.repeated
        self.repeated = x.q if again is None else again.expand(self.rows).contiguous()
        self.of_values = 1 if value is None else value.shape[1], vectors.value_zero
        self.constants |= {"OF_QUERIES": query is not None, "OF_KEYS": key is not None}
        del self.constants["OFFSETS"]

    def blocks(self, kernel: Kernel) -> Blocks:
        return blocks_for(max(self.dim, self.value_dim), self.inputs.q.dtype, kernel)

    @property
    def by_distance(self) -> bool:
        return True

    @property
    def reach(self) -> tuple[int, int]:
        ends = [*self.vectors.ends, (0, 0)]
        if self.inputs.table is not None:
            ends.append(super().reach)
        behind, ahead = zip(*ends, strict=True)
        return max(behind), max(ahead)


def blocks_for(dim: int, dtype: torch.dtype, kernel: Kernel) -> Blocks:
    """As `kernel_args.blocks_for`, of more warps where what is gathered takes registers.

    In 16 bits and to 64 dimensions they are the fastest of those that were timed on an H200.
    """
    small = dtype in (torch.bfloat16, torch.float16)
    if small and dim <= 64:
        return 64, 64, 4, 2 if kernel == "keys" else 3
    if kernel != "forward":
        own, other, warps, stages = _backward_blocks(dim, small)
        return (own, other, warps, stages) if kernel == "queries" else (other, own, warps, stages)
    if small:
        return (128, 64, 8, 2) if dim <= 128 else (64, 32, 8, 2)
    return (64, 32, 4 if dim <= 64 else 8, 2) if dim <= 128 else (32, 32, 8, 1)


def _backward_blocks(dim: int, small: bool) -> Blocks:
    """Tokens that a program of the backward pass owns, and those that it meets at a time."""
    if small:
        return (128, 32, 8, 2) if dim <= 128 else (64, 32, 8, 2)
    return 32, 32, 4 if dim <= 64 else 8, 1
