"""From terms and positions to the normal form: terms of a kind become one, masks collapse."""

from collections.abc import Sequence
from functools import reduce
from typing import Any, Literal, TypeVar, cast, get_args

import torch
from torch import Tensor

from posenc.errors import PositionsError, ShapeError, UnsupportedError
from posenc.normal_form.form import (
    NormalForm,
    Offsets,
    OwnVectors,
    Slopes,
    Table,
    merged,
    rotations_of,
)
from posenc.normal_form.own_vectors import beside
from posenc.normal_form.pairs import by_grid, through_network
from posenc.normal_form.visibility import Visibility, visibility_of
from posenc.positions import Positions
from posenc.rotation import CosSin, growth_held, waves_of
from posenc.terms import (
    ChunkZones,
    CountTable,
    DenseBias,
    DistanceTable,
    GatherTable,
    GridTable,
    Householder,
    Mask,
    Network,
    Offset,
    Polar,
    Rotate,
    RotateValues,
    Scale,
    SinkLogit,
    Slope,
    Term,
    Transform,
    Turn,
    ValueTable,
    Zones,
)
from posenc.torch_modes import autocast_off, fitting

_T = TypeVar("_T")
_ROTATIONS = get_args(Turn)
_NOTHING_ADDED = (*_ROTATIONS, Transform, RotateValues, Mask, Scale)
_BY_DISTANCE = (DistanceTable, Slope, GatherTable, ValueTable, Network)


def normalise(
    terms: Sequence[Term], positions: Positions, dtype: torch.dtype = torch.float32
) -> NormalForm:
    """The normal form of these terms; cos and sin in `dtype`, tables in at least that.

    Raises PositionsError where a term cannot read these positions: fractions or several axes, or
    distances that a table does not hold, and UnsupportedError for zones that are not causal.
    """
    causal, rotation = positions.causal, _first(terms, _ROTATIONS)
    seen = visibility_of(terms, causal) if _all(terms, Mask) else Visibility(causal)
    check_distances(terms, positions, seen)
    made_for = [pair for term in terms for pair in _made_for(term)]
    for name, heads in made_for[1:]:
        if heads != made_for[0][1]:
            raise ShapeError(
                f"{name} was made for {heads} heads, but {made_for[0][0]} for {made_for[0][1]}: "
                "construct what comes together for the same heads"
            )
    if isinstance(rotation, (Zones, ChunkZones, Householder)) and not causal:
        raise UnsupportedError("products and zones are for causal attention: pass causal=True")
    waves: list[tuple[CosSin, CosSin | None]] = []
    for one in rotations_of(rotation)[: 1 if isinstance(rotation, ChunkZones) else 2]:
        growth = growth_held(one) if one.grows else None
        if one.grows and growth is None:
            # Of all zones or of none, as a backend has them.
            waves = []
            break
        waves.append(waves_of(one, dtype, growth))
    of_values = [term.rotation for term in _all(terms, RotateValues)]
    scale, query_scale = 1.0, cast("Tensor | None", None)
    for term in _all(terms, Scale):
        if isinstance(term.factor, Tensor):
            query_scale = term.factor if query_scale is None else query_scale * term.factor
        else:
            scale = scale * term.factor
    added = [term for term in terms if not isinstance(term, _NOTHING_ADDED)]
    return fitting(
        NormalForm,
        positions=positions,
        visibility=seen,
        transform=_first(terms, Transform),
        rotation=rotation,
        q_waves=waves[0][0] if waves else None,
        k_waves=waves[0][1] if waves else None,
        far_waves=waves[1] if len(waves) == 2 else None,
        value_rotation=of_values[0] if of_values else None,
        value_waves=waves_of(of_values[0], dtype) if of_values else None,
        scale=scale,
        query_scale=query_scale,
        made_for=made_for[0] if made_for else None,
        **(_added(added, positions, dtype) if added else {}),
    )


def _added(terms: Sequence[Term], positions: Positions, dtype: torch.dtype) -> dict[str, Any]:
    """The fields of what is added to scores and to values."""
    fields: dict[str, Any] = {}
    outside: list[Table] = []
    inside: list[Table] = []
    for term in _all(terms, DistanceTable):
        # Laid out once, not by the kernel in every layer.
        table = Table(_wide(term.values, dtype).contiguous(), term.zero)
        (inside if term.inside else outside).append(table)
    if len(outside) + len(inside) < len(terms):
        on_query, query_bias = _vectors(terms, "q", dtype)
        on_key, key_bias = _vectors(terms, "k", dtype)
        # (x + bias) . row is x . row, and a number for each distance.
        inside += query_bias + key_bias
        fields = {
            "slopes": _slopes(terms, inside=False),
            "inside_slopes": _slopes(terms, inside=True),
            "offsets": _offsets(terms),
            "network": _first(terms, Network),
            "grid": _first(terms, GridTable),
            "on_query": on_query,
            "on_key": on_key,
            "own": _own(terms, dtype),
            "on_value": merged([_expanded(term, dtype) for term in _all(terms, ValueTable)]),
            "counts": _counts(terms, dtype),
            "dense": _dense(terms, positions, dtype),
            "sink": _summed([x.values for x in _all(terms, SinkLogit)], torch.logaddexp),
        }
    return {"table": merged(outside), "inside_table": merged(inside), **fields}


def check_heads(form: NormalForm, heads: int) -> None:
    """Raise ShapeError for a term that was made for another number of query heads."""
    if form.made_for is not None and form.made_for[1] != heads:
        name, count = form.made_for
        raise ShapeError(
            f"{name} was made for {count} heads, but q has {heads}: "
            f"construct the encoding with heads={heads}"
        )


def check_distances(terms: Sequence[Term], positions: Positions, seen: Visibility) -> None:
    """Raise PositionsError where terms by distance cannot read these positions.

    A table that does not saturate must hold every distance that a visible pair can have.
    """
    for term in terms:
        if not isinstance(term, _BY_DISTANCE):
            continue
        q, k = positions.one_axis("a distance")
        if isinstance(term, Slope):
            continue
        name = type(term).__name__
        if q.is_floating_point() or k.is_floating_point():
            raise PositionsError(
                f"{name} holds one value per whole distance, but positions are float64: give int64 "
                "positions, or take an encoding of real distances, as ALiBi, KERPLE and Rotary are"
            )
        if not isinstance(term, Network) and term.saturates:
            continue
        past, future = _reach(term)
        # Causality bounds the distance only where coordinates rise with the order.
        past_only, reach = seen.past_only and positions.unit_step, positions.reach
        if reach is None or past < reach[0] or future < (0 if past_only else reach[1]):
            raise PositionsError(
                f"{name} holds distances from {-past} to {future} and does not "
                f"saturate, but positions reach up to {None if reach is None else reach[0]}: "
                "build the table for Positions of this extent"
            )


def _vectors(
    terms: Sequence[Term], side: Literal["q", "k"], dtype: torch.dtype
) -> tuple[Table | None, list[Table]]:
    """The vectors that one side reads, and what a bias beside q or k makes of them."""
    vectors, biases = [], []
    for term in _all(terms, GatherTable):
        if term.side != side or term.own is not None:
            continue
        vectors.append(own := _expanded(term, dtype))
        if term.bias is not None:
            with autocast_off(own.values.device):
                bias = _wide(term.bias, dtype).to(own.values.dtype)
                biases.append(Table((own.values @ bias[..., None])[..., 0], term.zero))
    return merged(vectors), biases


def _own(terms: Sequence[Term], dtype: torch.dtype) -> OwnVectors | None:
    told = [(x.own, _expanded(x, dtype)) for x in _all(terms, GatherTable) if x.own is not None]
    return beside([(_wide(own, dtype), table) for own, table in told]) if told else None


def _expanded(term: GatherTable | ValueTable, dtype: torch.dtype) -> Table:
    """A vector for each distance, not for each row that distances share."""
    rows = _wide(term.weight, dtype)
    return Table(rows if term.row_of is None else rows.index_select(1, term.row_of), term.zero)


def _slopes(terms: Sequence[Term], inside: bool) -> Slopes | None:
    return merged(
        [
            Slopes(term.past, term.past if term.future is None else term.future)
            for term in _all(terms, Slope)
            if term.inside == inside
        ]
    )


def _offsets(terms: Sequence[Term]) -> Offsets | None:
    q = _summed([term.q for term in _all(terms, Offset)])
    k = _summed([term.k for term in _all(terms, Offset)])
    return None if q is None or k is None else Offsets(q, k)


def _dense(terms: Sequence[Term], positions: Positions, dtype: torch.dtype) -> Tensor | None:
    """What has a number for each pair: dense biases, all networks and grids but the first."""
    parts = [term.values for term in _all(terms, DenseBias)]
    for network in _all(terms, Network)[1:]:
        with autocast_off(positions.device):
            wide = torch.promote_types(network.output_weight.dtype, dtype)
            distance = positions.distance()[:, 0]
            parts.append(through_network(network, distance, network.by_query, wide))
    parts += [by_grid(x.values, x.q_index, x.k_index, x.zero) for x in _all(terms, GridTable)[1:]]
    return _summed(parts)


def _counts(terms: Sequence[Term], dtype: torch.dtype) -> Tensor | None:
    """The sum of tables by count: beyond its last row, a table stays at it."""
    total = merged([Table(_wide(term.weight, dtype), 0) for term in _all(terms, CountTable)])
    return None if total is None else total.values


def _made_for(term: Term) -> list[tuple[str, int]]:
    """The numbers of query heads that a term was made for; one of all heads fits any."""
    sizes: list[int] = []
    if isinstance(term, (Rotate, RotateValues, Mask)):
        return []
    if isinstance(term, Householder):
        sizes = _not_one(term.heads or 1)
    elif isinstance(term, Polar):
        sizes = _not_one(term.q_angle.shape[1], term.k_angle.shape[1])
    elif isinstance(term, Offset):
        sizes = [term.q.shape[1], term.k.shape[1]]
    elif isinstance(term, Slope):
        sizes = [x.shape[0] for x in (term.past, term.future) if x is not None]
    elif isinstance(term, DenseBias):
        sizes = _not_one(term.values.shape[1])
    elif isinstance(term, Scale) and isinstance(term.factor, Tensor):
        sizes = _not_one(term.factor.shape[1])
    elif isinstance(term, (DistanceTable, GridTable, SinkLogit)):
        sizes = _not_one(term.values.shape[0])
    elif isinstance(term, Network):
        sizes = _not_one(term.output_weight.shape[0], term.output_bias.shape[0])
    elif isinstance(term, GatherTable):
        sizes = [] if term.own is None else [term.own.shape[1]]
        sizes += _not_one(*(x.shape[0] for x in (term.weight, term.bias) if x is not None))
    elif isinstance(term, (ValueTable, CountTable)):
        sizes = _not_one(term.weight.shape[0])
    return [(type(term).__name__, size) for size in sizes]


def _not_one(*sizes: int) -> list[int]:
    return [size for size in sizes if size != 1]


def _reach(term: DistanceTable | GatherTable | ValueTable | Network) -> tuple[int, int]:
    """The farthest distances that a table holds, behind and ahead."""
    if isinstance(term, Network):
        return term.by_distance.shape[0] - 1, term.by_distance.shape[0] - 1
    if isinstance(term, DistanceTable):
        return term.zero, term.values.shape[-1] - term.zero - 1
    entries = term.weight.shape[-2] if term.row_of is None else term.row_of.shape[0]
    return term.zero, entries - term.zero - 1


def _wide(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x in at least this dtype; a wider one is kept, for calls in more than was lowered for."""
    return x if x.dtype == dtype else x.to(torch.promote_types(x.dtype, dtype))


def _summed(tensors: Sequence[Tensor], add: Any = torch.add) -> Tensor | None:
    return reduce(add, tensors) if tensors else None


def _all(terms: Sequence[Term], kind: type[_T]) -> list[_T]:
    return [cast(_T, term) for term in terms if isinstance(term, kind)]


def _first(terms: Sequence[Term], kind: Any) -> Any:
    # No next(generator, default), which torch 2.7 cannot trace.
    return (*[term for term in terms if isinstance(term, kind)], None)[0]
