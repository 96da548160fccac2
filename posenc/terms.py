"""The closed vocabulary to which every relative encoding lowers.

`posenc/equation.py` is the one place that says what a term means. With q and k multiplied by their
Transform and content = rotate(q) . rotate(k) + GatherTables + whatever is marked inside,

    s = scale * (product of Scale) * content + terms outside + CountTable
    p = softmax(s where visible, else -inf; SinkLogit beside), zeros in a row that sees nothing
    out = unturn(dropout(p) turn(v)) + ValueTables(p)

Terms are a set of plain frozen data. Letters: b batch, h heads, tq queries, tk keys, d head
dimension, r rotated pairs, n rows; `1|b` means 1 or b. Distance is k_position - q_position, and
`zero` is the row of distance 0. A table that `saturates` is clamped; others hold every distance.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from posenc.mask_rules import WIDEST, MaskRule
from posenc.mask_rules import Chunk as Chunk
from posenc.mask_rules import Prefix as Prefix
from posenc.mask_rules import Sink as Sink
from posenc.mask_rules import Window as Window

Layout = Literal["half", "interleaved"]


@dataclass(frozen=True, eq=False)
class Transform:
    """Multiply q and k by matrices of their tokens (1|b, 1|h, 1|t, n, e, e), before all else.

    On n blocks of e dimensions; t = 1 is a basis for all; k is None where keys come multiplied.
    """

    q: Tensor
    k: Tensor | None


@dataclass(frozen=True, eq=False)
class Rotate:
    """Rotate pairs of q and k by float64 angles (1|b, 1|h, t, r), read when terms are lowered.

    layout        "half" pairs (i, i + r), "interleaved" pairs (2i, 2i + 1)
    start         first rotated dimension; the others pass
    gain          multiplies the rotated dimensions of q and of k
    *_log_scale   log of a factor per pair; rebased to one origin per call, unless it is
    bounded       which factors are that float32 holds of each token by itself
    k_angle       None where the keys come rotated, out of a cache
    """

    q_angle: Tensor
    k_angle: Tensor | None
    layout: Layout
    start: int = 0
    gain: float = 1.0
    q_log_scale: Tensor | None = None
    k_log_scale: Tensor | None = None
    bounded: bool = False

    @property
    def grows(self) -> bool:
        """Whether factors beside the angles grow with position, and cancel in pairs only."""
        scales = self.q_log_scale is not None or self.k_log_scale is not None
        return scales and not self.bounded


@dataclass(frozen=True, eq=False)
class RotateValues:
    """Rotate pairs of v, and the sums of them back by the query's own angle.

        output = rotate_back(sum of p * rotate(v))

    so that a value comes turned by the difference of two float64 angles: of queries (1|b, 1|h, tq,
    r), and of values (1|b, 1|g, tk, r), for g key heads. layout and start as in Rotate; k_angle is
    None where the values come rotated, out of a cache.
    """

    q_angle: Tensor
    k_angle: Tensor | None
    layout: Layout
    start: int = 0

    @property
    def rotation(self) -> Rotate:
        """The same as of queries and keys."""
        return Rotate(self.q_angle, self.k_angle, self.layout, self.start)


@dataclass(frozen=True, eq=False)
class Zones:
    """`near` where the order distance is under `width`, `far` beyond. Causal only.

    A width beyond WIDEST is taken for that, as of a Window.
    """

    near: Rotate
    far: Rotate
    width: int

    def __post_init__(self) -> None:
        if self.width > WIDEST:
            object.__setattr__(self, "width", WIDEST)


@dataclass(frozen=True, eq=False)
class ChunkZones:
    """Queries turned by how many chunks, floor(position / width), they are ahead of the key.

    `same` is how keys turn, and queries before keys of their own chunk; `next` turns them before
    keys of the chunk before, `beyond` before older ones. Causal only. Keys turn once, so that
    next.k_angle and beyond.k_angle are None; nothing grows with position.
    """

    same: Rotate
    next: Rotate
    beyond: Rotate
    width: int


@dataclass(frozen=True, eq=False)
class Householder:
    """Keys multiplied by what the tokens after them say, up to the query. Causal only.

        content = q[i] . H[i] H[i - 1] .. H[j + 1] k[j],   H[s] = I - beta[s] w[s] w[s]^T

    w (1|b, 1|g, tk, d) and beta (1|b, 1|g, tk) of every key, in the order of the keys, of which
    the queries are the last; where no token is between, q[i] . k[j]. `heads` is the number of
    query heads that they were made for, None: any.
    """

    w: Tensor
    beta: Tensor
    heads: int | None = None


@dataclass(frozen=True, eq=False)
class Polar:
    """Magnitudes that q and k tell, at angles that only positions tell.

        content = sum over c of softplus(q[c]) * softplus(k[c]) * cos(q_angle[c] - k_angle[c])

    Float64 angles of every dimension, of queries (1|b, 1|h, tq, d) and keys (1|b, 1|h, tk, d).
    """

    q_angle: Tensor
    k_angle: Tensor

    @property
    def rotation(self) -> Rotate:
        """How pairs of a magnitude and a zero turn, (c, c + d) of heads of width 2d."""
        return Rotate(self.q_angle, self.k_angle, "half")


@dataclass(frozen=True, eq=False)
class DistanceTable:
    """score += values[h, distance + zero]; values (1|h, n)."""

    values: Tensor
    zero: int
    inside: bool = False
    saturates: bool = False


@dataclass(frozen=True, eq=False)
class Slope:
    """score -= slope[h] * |distance|; slopes (h,), `future` None means as in the past."""

    past: Tensor
    future: Tensor | None = None
    inside: bool = False


@dataclass(frozen=True, eq=False)
class GatherTable:
    """content += (x + bias) . weight[h, row_of[distance + zero]]; x is q or k, never rotated.

    weight (1|h, rows, d), bias (1|h, d), row_of int64 (n,); row_of None means row = distance + zero
    own   (1|b, h, tq, e) in place of q, with weight (1|h, rows, e) and no bias: then it is scaled
          by Scale terms alone, s += (product of Scale) * own . weight[...]
    """

    weight: Tensor
    zero: int
    side: Literal["q", "k"]
    bias: Tensor | None = None
    row_of: Tensor | None = None
    saturates: bool = False
    own: Tensor | None = None


@dataclass(frozen=True, eq=False)
class ValueTable:
    """output += sum of p * weight[h, row_of[distance + zero]]; weight (1|h, rows, d_v)."""

    weight: Tensor
    zero: int
    row_of: Tensor | None = None
    saturates: bool = False


@dataclass(frozen=True, eq=False)
class Network:
    """score += network(by_distance[|distance|] * by_query[i])[h], of one hidden layer of ReLUs.

        network(x)[h] = output_bias[h] + sum over u of output_weight[h, u] * relu(hidden[u])
        hidden[u]     = hidden_weight[u] * x + hidden_bias[u]

    by_distance (n,) holds every distance, and by_query (1|b, tq); hidden_weight and
    hidden_bias (u,), output_weight (1|h, u) and output_bias (1|h,) alike. For each head it is a
    piecewise linear function of one number, with at most u kinks.
    """

    by_distance: Tensor
    by_query: Tensor
    hidden_weight: Tensor
    hidden_bias: Tensor
    output_weight: Tensor
    output_bias: Tensor


@dataclass(frozen=True, eq=False)
class GridTable:
    """score += values[h, k_index - q_index + zero]; values (1|h, n).

    The indices, int64 (1|b, tq) and (1|b, tk), are coordinates of a grid in one number, so that
    each difference of rows and columns has one of its own. The table holds every difference.
    """

    values: Tensor
    q_index: Tensor
    k_index: Tensor
    zero: int


@dataclass(frozen=True, eq=False)
class Offset:
    """score += q[i] + k[j]; (1|b, h, tq) and (1|b, h, tk)."""

    q: Tensor
    k: Tensor


@dataclass(frozen=True, eq=False)
class CountTable:
    """score += q . weight[h, count], interpolated between rows; weight (1|h, n, d).

    count[i, j] sums sigmoid(scaled content) over the visible keys from j on, clamped to n - 1.
    """

    weight: Tensor


@dataclass(frozen=True, eq=False)
class Scale:
    """Multiplies the content's scale: a number or (1|b, 1|h, tq)."""

    factor: float | Tensor


@dataclass(frozen=True, eq=False)
class SinkLogit:
    """One more logit in each row of the softmax, of a key without a value; values (1|h,).

    p[i, j] = exp(s[i, j]) / (exp(values[h]) + sum of exp(s[i, n]) over the visible n). Several are
    one, of the log of the sum of their exp. Values are below infinity; minus infinity is no sink.
    """

    values: Tensor


@dataclass(frozen=True, eq=False)
class DenseBias:
    """score += values (1|b, 1|h, tq, tk): the last resort, quadratic memory."""

    values: Tensor


@dataclass(frozen=True)
class Mask:
    """A rule, not a matrix: `Positions.visible` applies it."""

    rule: MaskRule


# What queries and keys meet by, of which a call has one.
Turn = Rotate | Zones | ChunkZones | Householder | Polar
Added = DistanceTable | Slope | GatherTable | Network | GridTable | Offset | CountTable | DenseBias
Term = Transform | Turn | Added | RotateValues | ValueTable | Scale | SinkLogit | Mask


def turns_in(term: Term) -> dict[str, Rotate]:
    """The rotations that a term of several holds, by name; nothing of any other."""
    names: dict[type, str] = {Zones: "near far", ChunkZones: "same next beyond"}
    return {name: getattr(term, name) for name in names.get(type(term), "").split()}


for _term in get_args(Term):
    torch.export.register_dataclass(_term, serialized_type_name=f"posenc.{_term.__name__}")
