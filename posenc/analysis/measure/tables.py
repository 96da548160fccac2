"""Tables with one row per position, or per distance: of encodings, and what any is good for."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from posenc.analysis.measure.rotations import Turning, between, key_angle
from posenc.analysis.probe_context import device_of, lowered_alone
from posenc.encoding import Encoding
from posenc.encodings._absolute import Absolute
from posenc.encodings.sinusoidal import Sinusoidal
from posenc.equation import distance_bias, grid_bias, network_bias, rows_of
from posenc.errors import ShapeError, UnsupportedError
from posenc.lowering import embeds_only
from posenc.positions import Positions
from posenc.rotation import rotate_pairs
from posenc.terms import (
    DenseBias,
    DistanceTable,
    GatherTable,
    GridTable,
    Network,
    Rotate,
    Slope,
    Term,
    Transform,
    ValueTable,
)


def position_table(
    encoding: Encoding, positions: Positions | Tensor | int
) -> Float64[Tensor, "t c"]:
    """The vector of each position: what an absolute encoding adds, or where a rotary one turns 1.

    Of an absolute encoding, row p is what `embed` merges at position p. Of a rotary one it is a
    key of ones as it stands after turning, all heads side by side: (cos a - sin a, cos a + sin a)
    in each turned pair. Positions are those of one row; a number stands for 0, 1, 2, ...

        position_table(pe.Sinusoidal(64), 4096)   # (4096, 64)

    Raises UnsupportedError for an encoding that acts on distances only: see `distance_table`.
    """
    # An encoding that only adds to embeddings is not asked who sees whom.
    causal = not embeds_only(encoding)
    if isinstance(positions, int):
        positions = Positions.build(positions, causal=causal, device=device_of(encoding))
    elif isinstance(positions, Tensor):
        positions = Positions.build(ids=positions, causal=causal)
    if isinstance(encoding, Absolute):
        return encoding.vectors(positions).detach()[0].double()
    if embeds_only(encoding):
        zeros = torch.zeros(1, positions.q_len, encoding.model_dim or 1, dtype=torch.float64)
        return encoding.embed(zeros.to(positions.device), positions).detach()[0].double()
    other = "; distance_table has what it says of distances"
    rotate, cos, sin = _rotated_keys(encoding, positions, "position_table", other)
    ones = cos.new_ones(1, cos.shape[1], cos.shape[2], 2 * cos.shape[3])
    return rotate_pairs(ones, cos, sin, rotate.layout)[0].transpose(0, 1).flatten(1)


def pair_points(encoding: Encoding, length: int) -> Float64[Tensor, "#h t r 2"]:
    """The two numbers (cosine, sine) of every pair at positions 0 .. length - 1.

    Of Sinusoidal a pair is a sine and its cosine, wherever its layout puts them; of any other
    absolute encoding columns (2i + 1, 2i); of a rotary one, where a key of (1, 0) is turned to,
    for all heads alike or for each. Raises UnsupportedError where a position has no vector, or one
    of a single number.

        pair_points(pe.Rotary(64), 128)[0, :, 0]   # the fastest pair, on the unit circle
    """
    if not embeds_only(encoding):
        positions = Positions.build(length, causal=True, device=device_of(encoding))
        _, cos, sin = _rotated_keys(encoding, positions, "pair_points")
        return torch.stack((cos[0], sin[0]), dim=-1).expand(-1, length, -1, -1)
    table = position_table(encoding, length)
    pairs = table.shape[1] // 2
    if not pairs:
        raise UnsupportedError(f"pair_points({encoding!r}): a position is one number here")
    sine = torch.arange(pairs, device=table.device)
    cosine = sine + (table.shape[1] + 1) // 2
    if not isinstance(encoding, Sinusoidal) or encoding.layout == "interleaved":
        sine, cosine = 2 * sine, 2 * sine + 1
    elif encoding.denominator == "tensor2tensor":
        cosine = sine + pairs
    return torch.stack((table[:, cosine], table[:, sine]), dim=-1)[None]


def distance_table(encoding: Encoding, length: int) -> Float64[Tensor, "t c"]:
    """What attention is told of a key n tokens back, row n, by a relative encoding.

    cos and sin of the relative angles, products of matrices of tokens, the biases of all heads, and
    the vectors that tables add to keys and values, side by side; what depends on content only is
    left out. A causal query at position length - 1 reads the keys.

        distance_table(pe.ALiBi(8), 512)   # (512, 8): a bias for each head

    Raises UnsupportedError where nothing is left.
    """
    positions = Positions.build(1, length, causal=True, device=device_of(encoding))
    if embeds_only(encoding):
        raise UnsupportedError(
            f"distance_table({encoding!r}): it changes embeddings, by position_table"
        )
    parts = [
        part for term in lowered_alone(encoding, positions).terms for part in _told(term, positions)
    ]
    if not parts:
        raise UnsupportedError(
            f"distance_table({encoding!r}): it says nothing of a distance but what depends on "
            "the content or is the same for all"
        )
    columns = [part.detach().double().reshape(-1, length) for part in parts]
    return torch.cat(columns).T.flip(0)


def _rotated_keys(
    encoding: Encoding, positions: Positions, called: str, other: str = ""
) -> tuple[Rotate, Tensor, Tensor]:
    """The rotation, and what it makes of (1, 0) in every pair of the keys: two of (1, #h, t, r)."""
    for term in lowered_alone(encoding, positions).terms:
        if isinstance(term, Rotate):
            angle = key_angle(term)
            size = torch.full_like(angle, term.gain)
            if term.k_log_scale is not None:
                size = size * term.k_log_scale.detach().exp()
            return term, angle.cos() * size, angle.sin() * size
    raise UnsupportedError(
        f"{called}({encoding!r}): it gives no vector to a position of its own{other}"
    )


def _told(term: Term, positions: Positions) -> list[Tensor]:
    """What a term says of every key to the only query: tensors (..., tk)."""
    if isinstance(term, Turning):
        angle, size = between(term, positions)
        return [(angle.cos() * size).mT, (angle.sin() * size).mT]
    if isinstance(term, Transform) and term.k is not None and term.k.shape[2] > 1:
        return [(term.q.mT @ term.k).movedim(2, -1)]
    if isinstance(term, (DistanceTable, Slope)):
        return [distance_bias(term, positions, torch.float64)]
    if isinstance(term, Network):
        return [network_bias(term, positions, torch.float64)]
    if isinstance(term, GridTable):
        return [grid_bias(term, torch.float64)]
    if isinstance(term, (GatherTable, ValueTable)):
        return [term.weight[:, rows_of(term, positions)[0, 0, 0]].mT]
    return [term.values] if isinstance(term, DenseBias) else []


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

        uniqueness(position_table(pe.Ordinal(), 4096), torch.bfloat16).collision   # (256, 257)

    Source: Kazemnejad 2019, "Transformer Architecture: The Positional Encoding", whose first demand
    is an encoding of its own for every position.
    """
    first, index = _first_equal(table.detach().to(dtype).double())
    repeats = (first < index).nonzero().flatten().tolist()
    collision = (int(first[repeats[0]]), repeats[0]) if repeats else None
    return Uniqueness(len(first), int((first == index).sum()), collision)


def groups(table: Float[Tensor, "t c"]) -> Int64[Tensor, "t"]:
    """Which rows are the same: each row's group, numbered in the order of first appearance.

    Of a table over distances they are the buckets. Rows are the same where all numbers are equal,
    nan among them.

        groups(distance_table(pe.T5Bias(8), 200))   # 0 .. 15 one by one, then buckets of several
    """
    rows = table.detach().double()
    # Nan differs from itself, and stands for what is not there.
    rows = torch.cat((rows.nan_to_num(), rows.isnan().double()), dim=-1)
    first, index = _first_equal(rows)
    return ((first == index).cumsum(0) - 1)[first]


def _first_equal(rows: Float64[Tensor, "t c"]) -> tuple[Int64[Tensor, "t"], Int64[Tensor, "t"]]:
    """For each row the first that equals it, itself or an earlier one; and its own index."""
    kinds, kind_of = torch.unique(rows, dim=0, return_inverse=True)
    index = torch.arange(len(rows), device=rows.device)
    first = torch.full_like(index, len(rows))[: len(kinds)]
    return first.scatter_reduce(0, kind_of, index, "amin")[kind_of], index


def boundedness(table: Float[Tensor, "t c"]) -> Float64[Tensor, "t"]:
    """The largest absolute number in the rows so far: max over n <= t and c of |table[n, c]|.

    It levels off for a bounded encoding, and grows with the length for any other: with t for plain
    integers. In the units of the table.

        boundedness(position_table(pe.Ordinal(), 100))[-1]   # 99.0
    """
    return table.detach().double().abs().amax(dim=-1).cummax(dim=0).values


def shift(table: Float[Tensor, "t c"], step: int = 1) -> Shift:
    """The matrix M, by least squares, with table[p + step] = M table[p] for every p at once.

        residual = |table[step:] - table[:-step] M^T| / |table[step:]|,   Frobenius norms

    For sines and cosines in quadrature M turns each pair by step times its frequency, and the
    residual is rounding. Where rows do not span all directions, M is the smallest of the solutions.
    Raises ShapeError for step < 1, and for so few rows that some M fits whatever they hold.

        shift(position_table(pe.Sinusoidal(64), 4096), 3).residual   # below 1e-12

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

        inner_products(position_table(pe.Sinusoidal(64), 128)).diagonal()   # 32.0 everywhere

    Source: Yan et al. 2019, arXiv:1911.04474 (TENER), with and without projections.
    """
    rows = table.detach().double()
    q, k = (rows if w is None else rows @ w.detach().double() for w in (w_q, w_k))
    return q @ k.mT


def resolution(
    table: Float[Tensor, "*batch t c"], dtype: torch.dtype = torch.float64
) -> Float64[Tensor, "*batch steps"]:
    """How far each row lies from the next once both are rounded to dtype: |table[n+1] - table[n]|.

    0 where neighbours are confused. A curve of scores (..., t) is the table curve[..., None]; of
    ALiBi every step is its slope. Euclidean norm over c, in the units of the table; t - 1 steps.

        resolution(position_table(pe.Ordinal(), 300), torch.bfloat16)[256]   # 0.0
    """
    return table.detach().to(dtype).double().diff(dim=-2).norm(dim=-1)
