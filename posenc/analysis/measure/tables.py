"""Measures of a table with one row per position, or per distance. Any (t, c) tensor will do."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from posenc.errors import ShapeError


@dataclass(frozen=True)
class Uniqueness:
    """How many rows a table tells apart.

    rows       how many there are
    distinct   how many of them differ
    collision  (earlier, later): the first row that repeats another, and which; None if none does
    """

    rows: int
    distinct: int
    collision: tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class Shift:
    """The linear map that moves a table by some rows, and by how much it misses.

    matrix    M (c, c), so that table[p + step] is near M table[p]
    residual  what is left, as a share of the moved table: 0 where one matrix moves every row
    """

    matrix: Float64[Tensor, "c c"]
    residual: float


def uniqueness(table: Float[Tensor, "t c"], dtype: torch.dtype = torch.float64) -> Uniqueness:
    """How many rows are left distinct once their numbers are rounded to dtype.

    Two positions with the same row cannot be told apart by anything that follows. Rows are equal
    where all their numbers are, -0.0 and 0.0 among them.

    Source: Kazemnejad 2019, "Transformer Architecture: The Positional Encoding", whose first demand
    is an encoding of its own for every position.
    """
    rounded = table.detach().to(dtype).double()
    kinds, kind_of = torch.unique(rounded, dim=0, return_inverse=True)
    index = torch.arange(len(rounded), device=table.device)
    first = torch.full_like(index, len(rounded))[: len(kinds)]
    first = first.scatter_reduce(0, kind_of, index, "amin")[kind_of]
    repeats = (first < index).nonzero().flatten()
    collision = None
    if len(repeats):
        later = int(repeats[0])
        collision = int(first[later]), later
    return Uniqueness(len(rounded), len(kinds), collision)


def groups(table: Float[Tensor, "t c"]) -> Int64[Tensor, "t"]:
    """Which rows are the same: each row's group, numbered in the order of first appearance.

    Of a table over distances they are the buckets. Rows are the same where all numbers are equal,
    nan among them.
    """
    rows = table.detach().double()
    # Nan differs from itself, and stands for what is not there.
    rows = torch.cat((rows.nan_to_num(), rows.isnan().double()), dim=-1)
    kinds, kind_of = torch.unique(rows, dim=0, return_inverse=True)
    first = torch.full((len(kinds),), len(rows), device=rows.device)
    index = torch.arange(len(rows), device=rows.device)
    first = first.scatter_reduce(0, kind_of, index, "amin")
    return first.argsort().argsort()[kind_of]


def boundedness(table: Float[Tensor, "t c"]) -> Float64[Tensor, "t"]:
    """The largest absolute number in the rows so far: max over n <= t and c of |table[n, c]|.

    It levels off for a bounded encoding, and grows with the length for any other: with t for plain
    integers. In the units of the table.
    """
    largest = table.detach().double().abs().amax(dim=-1)
    return largest.cummax(dim=0).values


def shift(table: Float[Tensor, "t c"], step: int = 1) -> Shift:
    """The matrix M, by least squares, with table[p + step] = M table[p] for every p at once.

        residual = |table[step:] - table[:-step] M^T| / |table[step:]|,   Frobenius norms

    For sines and cosines in quadrature M turns each pair by step times its frequency, and the
    residual is rounding. Where rows do not span all directions, M is the smallest of the solutions.
    Raises ShapeError for step < 1, and for so few rows that some M fits whatever they hold.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5: PE[p + k] as a linear function of
    PE[p].
    """
    rows = table.detach().double()
    length, width = rows.shape
    if step < 1 or length - step <= width:
        raise ShapeError(
            f"shift(step={step}) of a table of shape {tuple(table.shape)}: step must be at least "
            f"1, and more than {width} pairs of rows are needed, for {width} columns: "
            f"give {width + max(step, 1) + 1} rows or, better, many more"
        )
    before, after = rows[:-step], rows[step:]
    # Slow pairs look alike over few rows: only the factors of an SVD bear dividing by what is left.
    u, sizes, v = torch.linalg.svd(before, full_matrices=False)
    kept = sizes > sizes[0] * length * torch.finfo(torch.float64).eps
    inverse = (1 / sizes).where(kept, 0.0)
    transposed = v.mT @ (inverse[:, None] * (u.mT @ after))
    left, size = (after - before @ transposed).norm(), after.norm()
    return Shift(transposed.mT, (left / size).item() if size > 0 else 0.0)


def inner_products(
    table: Float[Tensor, "t c"],
    w_q: Float[Tensor, "c d"] | None = None,
    w_k: Float[Tensor, "c d"] | None = None,
) -> Float64[Tensor, "t t"]:
    """What two positions make of each other: (table w_q)[i] . (table w_k)[j], plainly p[i] . p[j].

    For the sinusoid p[i] . p[j] is sum over pairs of cos((i - j) f), equal for (i, j) and (j, i).

    Source: Yan et al. 2019, arXiv:1911.04474 (TENER), with and without projections.
    """
    rows = table.detach().double()
    q = rows if w_q is None else rows @ w_q.detach().double()
    k = rows if w_k is None else rows @ w_k.detach().double()
    return q @ k.mT


def resolution(
    table: Float[Tensor, "*batch t c"], dtype: torch.dtype = torch.float64
) -> Float64[Tensor, "*batch steps"]:
    """How far each row lies from the next once both are rounded to dtype: |table[n+1] - table[n]|.

    0 where neighbours are confused. A curve of scores (..., t) is the table curve[..., None]; of
    ALiBi every step is its slope. Euclidean norm over c, in the units of the table; t - 1 steps.
    """
    rounded = table.detach().to(dtype).double()
    return (rounded[..., 1:, :] - rounded[..., :-1, :]).norm(dim=-1)
