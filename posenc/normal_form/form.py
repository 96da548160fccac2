"""The normal form: all terms and positions of a call, with one tensor of each kind.

With q and k multiplied by the matrices of transform:

    content = rotate(q) . rotate(k) + q . on_query[distance] + k . on_key[distance]
              + inside_table[distance] - inside_slopes * |distance|
    s       = scale * query_scale * content + table[distance] - slopes * |distance|
              + offsets + network + grid + dense + q . counts[number of open gates]
    p       = softmax(s where visible; sink beside)
    out     = unturn(p turn(v)) + p on_value[distance]

own adds scale * query_scale * own . vectors[distance] of a query, without the call's own scale.
Every backend but the reference reads this and nothing else. Letters: b batch, h query heads,
tq queries, tk keys, d head dimension, n distances; `1|h` means 1 or h. Distance is
k_position - q_position.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from posenc.normal_form.features import Feature
from posenc.normal_form.visibility import Visibility
from posenc.positions import Positions
from posenc.rotation import CosSin, waves_of
from posenc.terms import (
    ChunkZones,
    GridTable,
    Householder,
    Network,
    Polar,
    Rotate,
    Transform,
    Turn,
    Zones,
    turns_in,
)
from posenc.torch_modes import fields_of, kept, named


def rotations_of(turn: Turn | None) -> tuple[Rotate, ...]:
    """The terms that rotate by angles, of Polar in heads of twice the width: near before far."""
    if isinstance(turn, Polar):
        return (turn.rotation,)
    if isinstance(turn, Rotate):
        return (turn,)
    return () if turn is None else tuple(turns_in(turn).values())


@dataclass(frozen=True, eq=False)
class Table:
    """A number or a vector for each head and distance, clamped at both ends.

    values (1|h, n) or (1|h, n, d), of distance 0 at `zero`. In at least the arithmetic that the
    terms were lowered for; contiguity is not promised.
    """

    values: Tensor
    zero: int

    def plus(self, other: "Table") -> "Table":
        """The sum, which reaches as far as either."""
        x, y = self.values, other.values
        zero = max(self.zero, other.zero)
        future = max(x.shape[1] - self.zero, y.shape[1] - other.zero)
        distance = torch.arange(-zero, future, device=x.device)
        of_x = (distance + self.zero).clamp(0, x.shape[1] - 1)
        of_y = (distance + other.zero).clamp(0, y.shape[1] - 1)
        return Table(x.index_select(1, of_x) + y.index_select(1, of_y), zero)

    def times(self, factor: float) -> "Table":
        return self if factor == 1.0 else Table(self.values * factor, self.zero)


@dataclass(frozen=True, eq=False)
class Slopes:
    """score -= past * |distance| up to distance 0, and future * |distance| beyond; each (h,)."""

    past: Tensor
    future: Tensor

    def plus(self, other: "Slopes") -> "Slopes":
        return Slopes(self.past + other.past, self.future + other.future)

    def times(self, factor: float) -> "Slopes":
        return self if factor == 1.0 else Slopes(self.past * factor, self.future * factor)


_T = TypeVar("_T", Table, Slopes)


def merged(parts: Sequence[_T]) -> _T | None:
    """The sum of all, or None of none."""
    total = None
    for part in parts:
        total = part if total is None else cast(Any, total).plus(part)
    return total


@dataclass(frozen=True, eq=False)
class Offsets:
    """score += q[i] + k[j]; (1|b, h, tq) and (1|b, h, tk), in the dtype of the terms.

    They may be float64 and large: their differences matter, so add them before rounding.
    """

    q: Tensor
    k: Tensor


@dataclass(frozen=True, eq=False)
class OwnVectors:
    """score += query_scale * scale of the form * x[i] . the table's vector of the distance.

    x (1|b, h, tq, e), in the dtype of the terms.
    """

    x: Tensor
    table: Table


@dataclass(frozen=True, eq=False)
class NormalForm:
    """What a backend computes; see the equation above.

    positions    of the queries and keys, with orders, documents and padding
    visibility   who sees whom by order
    transform    Transform, carried out around a backend
    rotation     Rotate, Zones, ChunkZones, Householder or Polar
    q_waves      cos and sin (1|b, 1|h, tq, r) in the dtype of the arithmetic, times what grows
                 with position; of Zones those near, of ChunkZones those of the same chunk; None
                 where float32 does not hold them
    k_waves      the same of keys; None also where keys come rotated out of a cache
    far_waves    both of the far rotation of Zones
    value_rotation  Rotate, of values and back at the query
    value_waves  cos and sin of queries and of values, as those above; None of values that come
                 rotated out of a cache
    scale        product of the scales that are numbers, without the call's own
    query_scale  product of those that are tensors, (1|b, 1|h, tq)
    network      Network; what others add is dense
    grid         GridTable; what others add is dense
    counts       vectors (1|h, n, d) by the number of open gates
    dense        (1|b, 1|h, tq, tk)
    sink         (1|h,), a logit in the softmax of each row beside those of the keys
    made_for     for which sizes of q, k and v, and which device, as MadeFor of shapes.py
    """

    positions: Positions
    visibility: Visibility
    transform: Transform | None = None
    rotation: Turn | None = None
    q_waves: CosSin | None = None
    k_waves: CosSin | None = None
    far_waves: tuple[CosSin, CosSin | None] | None = None
    value_rotation: Rotate | None = None
    value_waves: tuple[CosSin, CosSin | None] | None = None
    scale: float = 1.0
    query_scale: Tensor | None = None
    table: Table | None = None
    inside_table: Table | None = None
    slopes: Slopes | None = None
    inside_slopes: Slopes | None = None
    offsets: Offsets | None = None
    on_query: Table | None = None
    on_key: Table | None = None
    own: OwnVectors | None = None
    on_value: Table | None = None
    network: Network | None = None
    grid: GridTable | None = None
    counts: Tensor | None = None
    dense: Tensor | None = None
    sink: Tensor | None = None
    made_for: tuple[tuple[str, tuple[str, ...], int], ...] = ()

    __getstate__ = fields_of

    @kept
    def features(self) -> frozenset[Feature]:
        """What a backend must be able to do."""
        # torch 2.7 cannot trace frozenset(generator).
        return frozenset([feature for feature, is_asked in self._asked() if is_asked])

    @kept
    def tensors(self) -> tuple[Tensor, ...]:
        """Those of positions, and of all that is added to scores and values but by counts."""
        parts: list[Any] = [self.positions.queries, self.positions.keys]
        parts += [self.table, self.inside_table, self.slopes, self.inside_slopes]
        parts += [self.on_query, self.on_key, self.on_value, self.offsets, self.network, self.grid]
        parts += [] if self.own is None else [self.own, self.own.table]
        fields = [x for part in parts if part is not None for x in named(part).values()]
        fields += [self.query_scale, self.dense, self.sink]
        return tuple([x for x in fields if isinstance(x, Tensor)])

    def waves(self, dtype: torch.dtype) -> tuple[CosSin, CosSin | None]:
        """cos and sin of queries and keys in this dtype, of Zones those near: what was made when
        the terms were lowered, unless that was for another.

        None for keys that come rotated.
        """
        if self.q_waves is not None and self.q_waves[0].dtype == dtype:
            return self.q_waves, self.k_waves
        return waves_of(rotations_of(self.rotation)[0], dtype)

    def waves_beyond(self, dtype: torch.dtype) -> tuple[CosSin, CosSin | None]:
        """The same of the far rotation of Zones."""
        if self.far_waves is not None and self.far_waves[0][0].dtype == dtype:
            return self.far_waves
        return waves_of(rotations_of(self.rotation)[1], dtype)

    def waves_of_values(self, dtype: torch.dtype) -> tuple[CosSin, CosSin | None]:
        """The same of the rotation of values."""
        if self.value_waves is not None and self.value_waves[0][0].dtype == dtype:
            return self.value_waves
        assert self.value_rotation is not None
        return waves_of(self.value_rotation, dtype)

    def biases(self, scale: float) -> tuple[Table | None, Slopes | None]:
        """All that is added by distance: what is inside the scale, a number, with the rest."""
        tables = (self.table, 1.0), (self.inside_table, scale)
        slopes = (self.slopes, 1.0), (self.inside_slopes, scale)
        return (
            merged([table.times(factor) for table, factor in tables if table is not None]),
            merged([pair.times(factor) for pair, factor in slopes if pair is not None]),
        )

    @property
    def by_distance(self) -> bool:
        """Whether anything is added to scores by distance alone."""
        tables = self.table is not None or self.inside_table is not None
        return tables or self.slopes is not None or self.inside_slopes is not None

    @kept
    def adds(self) -> bool:
        """Whether anything is added to the scores of pairs."""
        vectors = self.on_query is not None or self.on_key is not None
        rest = self.offsets is not None or self.network is not None or self.dense is not None
        rest = rest or self.grid is not None or self.own is not None
        return self.by_distance or vectors or rest

    @property
    def plain(self) -> bool:
        """Whether order and distance follow from the indices: nothing padded, packed or placed."""
        return self.positions.in_order and self.positions.unit_step

    def _asked(self) -> Iterator[tuple[Feature, bool]]:
        rotation, positions = self.rotation, self.positions
        grows = self.q_waves is None and any(x.grows for x in rotations_of(rotation))
        vectors = self.on_query is not None or self.on_key is not None
        distances = self.by_distance or vectors or self.on_value is not None
        distances = distances or self.network is not None or self.own is not None
        by_query = self.query_scale is not None
        inside = (self.inside_table, self.inside_slopes, self.on_key)
        seen = self.visibility
        yield Feature.TRANSFORM, self.transform is not None
        yield Feature.ROTATION, isinstance(rotation, Rotate)
        yield Feature.GROWING_ROTATION, grows
        yield Feature.ZONES, isinstance(rotation, Zones)
        yield Feature.CHUNK_ZONES, isinstance(rotation, ChunkZones)
        yield Feature.REFLECTIONS, isinstance(rotation, Householder)
        yield Feature.POLAR, isinstance(rotation, Polar)
        yield Feature.TABLE, not (self.table is None and self.inside_table is None)
        yield Feature.SLOPES, not (self.slopes is None and self.inside_slopes is None)
        yield Feature.QUERY_SCALE, by_query
        yield Feature.INSIDE_QUERY_SCALE, by_query and any(x is not None for x in inside)
        yield Feature.OFFSETS, self.offsets is not None
        yield Feature.NETWORK, self.network is not None
        yield Feature.GRID, self.grid is not None
        yield Feature.VECTORS, vectors
        yield Feature.VECTORS_BESIDE_ROTATION, vectors and rotation is not None
        yield Feature.OWN_VECTORS, self.own is not None
        yield Feature.VALUE_VECTORS, self.on_value is not None
        yield Feature.VALUE_ROTATION, self.value_rotation is not None
        both = self.value_rotation is not None and self.on_value is not None
        yield Feature.VALUE_VECTORS_BESIDE_ROTATION, both
        yield Feature.COUNTS, self.counts is not None
        yield Feature.DENSE, self.dense is not None
        yield Feature.SINK, self.sink is not None
        hides = seen.window is not None or seen.chunk is not None
        yield Feature.MASK, hides or seen.prefix > 0
        yield Feature.PLACED_DISTANCES, distances and not positions.unit_step
        yield (
            Feature.FRACTIONAL_DISTANCES,
            distances and positions.queries.position.is_floating_point(),
        )
        cross = positions.queries.order is None and positions.q_len > positions.k_len
        yield Feature.UNORDERED_QUERIES, cross


for _part in (Table, Slopes, Offsets, OwnVectors, Visibility, NormalForm):
    torch.export.register_dataclass(_part, serialized_type_name=f"posenc.{_part.__name__}")
