"""From terms and positions to the normal form: terms of a kind become one, masks collapse."""

from collections.abc import Sequence
from functools import reduce
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor

from posenc.errors import PositionsError, ShapeError, UnsupportedError
from posenc.normal_form import shapes
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
    RotateValues,
    Scale,
    SinkLogit,
    Slope,
    Term,
    Transform,
    Turn,
    ValueTable,
    Zones,
    turns_in,
)
from posenc.torch_modes import autocast_off, device_of, fitting

OfKind = dict[type, list[Any]]
_ROTATIONS = get_args(Turn)
_NOTHING_ADDED = (*_ROTATIONS, Transform, RotateValues, Mask, Scale)
_BY_DISTANCE = (DistanceTable, Slope, GatherTable, ValueTable, Network)


def normalise(
    terms: Sequence[Term], positions: Positions, dtype: torch.dtype = torch.float32
) -> NormalForm:
    """The normal form of these terms; cos and sin in `dtype`, tables in at least that.

    Raises PositionsError where a term cannot read these positions: fractions or several axes, or
    distances that a table does not hold, UnsupportedError for zones that are not causal, and
    ShapeError for tensors that do not fit each other or these positions.
    """
    of = _by_kind(terms)
    causal, turns = positions.causal, [term for term in terms if isinstance(term, _ROTATIONS)]
    rotation = turns[0] if turns else None
    seen = visibility_of(terms, positions) if Mask in of else Visibility(causal)
    check_distances(terms, positions, seen)
    made_for = sizes_of(terms, positions)
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
    of_values = [term.rotation for term in of.get(RotateValues, ())]
    scale, query_scale = 1.0, cast("Tensor | None", None)
    for term in of.get(Scale, ()):
        if isinstance(term.factor, Tensor):
            query_scale = term.factor if query_scale is None else query_scale * term.factor
        else:
            scale = scale * term.factor
    return fitting(
        NormalForm,
        positions=positions,
        visibility=seen,
        transform=_first(of, Transform),
        rotation=rotation,
        q_waves=waves[0][0] if waves else None,
        k_waves=waves[0][1] if waves else None,
        far_waves=waves[1] if len(waves) == 2 else None,
        value_rotation=of_values[0] if of_values else None,
        value_waves=waves_of(of_values[0], dtype) if of_values else None,
        scale=scale,
        query_scale=query_scale,
        made_for=made_for,
        **(_added(of, positions, dtype) if any(x not in _NOTHING_ADDED for x in of) else {}),
    )


def _added(of: OfKind, positions: Positions, dtype: torch.dtype) -> dict[str, Any]:
    """The fields of what is added to scores and to values."""
    fields: dict[str, Any] = {}
    outside: list[Table] = []
    inside: list[Table] = []
    for term in of.get(DistanceTable, ()):
        # Laid out once, not by the kernel in every layer.
        table = Table(_wide(term.values, dtype).contiguous(), term.zero)
        (inside if term.inside else outside).append(table)
    if GatherTable in of:
        vectors = of[GatherTable]
        fields["on_query"], query_bias = _vectors(vectors, "q", dtype)
        fields["on_key"], key_bias = _vectors(vectors, "k", dtype)
        fields["own"] = _own(vectors, dtype)
        # (x + bias) . row is x . row, and a number for each distance.
        inside += query_bias + key_bias
    if Slope in of:
        fields["slopes"] = _slopes(of[Slope], inside=False)
        fields["inside_slopes"] = _slopes(of[Slope], inside=True)
    if Offset in of:
        q, k = [x.q for x in of[Offset]], [x.k for x in of[Offset]]
        fields["offsets"] = Offsets(reduce(torch.add, q), reduce(torch.add, k))
    if ValueTable in of:
        fields["on_value"] = merged([_expanded(term, dtype) for term in of[ValueTable]])
    if CountTable in of:
        # Beyond its last row a table stays at it.
        tables = [Table(_wide(term.weight, dtype), 0) for term in of[CountTable]]
        fields["counts"] = reduce(Table.plus, tables).values
    if SinkLogit in of:
        fields["sink"] = reduce(torch.logaddexp, [x.values for x in of[SinkLogit]])
    return {
        **fields,
        "table": merged(outside),
        "inside_table": merged(inside),
        "network": _first(of, Network),
        "grid": _first(of, GridTable),
        "dense": _dense(of, positions, dtype),
    }


def sizes_of(terms: Sequence[Term], positions: Positions) -> tuple[shapes.MadeFor, ...]:
    """The sizes of q, k and v that terms were made for, whatever is not named fits any.

    Raises ShapeError where two tensors of the terms, or one and the positions, are of other sizes.
    """
    at = ("the positions",)
    of_call: shapes.Bound = {"tq": ("tq", at, positions.q_len), "tk": ("tk", at, positions.k_len)}
    for term in terms:
        of_term: shapes.Bound = {}
        parts = turns_in(term).values() if isinstance(term, (Zones, ChunkZones)) else [term]
        for part in parts:
            # Keys turn once for all that ChunkZones turn queries by, and once for each of Zones.
            _bind(part, of_call, {} if isinstance(term, Zones) else of_term)
    return tuple(of_call.values())[2:]


def _bind(term: Term, of_call: shapes.Bound, of_term: shapes.Bound) -> None:
    """Take the sizes of a term's tensors into those that are known, which they must equal."""
    kind, by_own = type(term), isinstance(term, GatherTable) and term.own is not None
    for field, letters in (shapes.BY_OWN if by_own else shapes.SHAPES.get(kind, {})).items():
        x = getattr(term, field)
        name = kind.__name__, field
        if isinstance(x, Tensor):
            sizes, device = x.shape, device_of(x)
            known = of_call.setdefault(shapes.DEVICE, (shapes.DEVICE, name, device))
            if device != known[2]:
                shapes.refuse(name, device, known)
        elif field == "heads" and x is not None:
            sizes = (x,)
        elif x is None or kind is Scale:
            continue
        else:
            shapes.refuse_type(name, x, letters)
        if len(letters) != len(sizes):
            raise ShapeError(f"{'.'.join(name)} has shape {tuple(sizes)}, but {letters} is needed")
        for letter, size in zip(letters, sizes, strict=True):
            if letter[0] == "1":
                if size == 1:
                    continue
                letter = letter[2:]
            if size == 0 and letter in shapes.FILLED:
                shapes.refuse_empty(name, tuple(sizes))
            bound = of_call if letter in shapes.OF_CALL else of_term
            key = (letter, name) if letter == "h|g" else letter
            known = bound.setdefault(key, (letter, name, size))
            if size != known[2]:
                shapes.refuse(name, size, known)


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
        if q.is_floating_point() or k.is_floating_point():
            raise PositionsError(
                f"{type(term).__name__} holds one value per whole distance, but positions are "
                "float64: give int64 positions, or take an encoding of real distances, as ALiBi, "
                "KERPLE and Rotary are"
            )
        if not isinstance(term, Network) and term.saturates:
            continue
        past, future = _reach(term)
        # Causality bounds the distance only where coordinates rise with the order.
        past_only, reach = seen.past_only and positions.unit_step, positions.reach
        if reach is None or past < reach[0] or future < (0 if past_only else reach[1]):
            raise PositionsError(
                f"{type(term).__name__} holds distances from {-past} to {future} and does not "
                f"saturate, but positions reach up to {None if reach is None else reach[0]}: "
                "build the table for Positions of this extent"
            )


def _vectors(
    terms: Sequence[GatherTable], side: Literal["q", "k"], dtype: torch.dtype
) -> tuple[Table | None, list[Table]]:
    """The vectors that one side reads, and what a bias beside q or k makes of them."""
    vectors, biases = [], []
    for term in terms:
        if term.side != side or term.own is not None:
            continue
        vectors.append(own := _expanded(term, dtype))
        if term.bias is not None:
            with autocast_off(own.values.device):
                bias = _wide(term.bias, dtype).to(own.values.dtype)
                biases.append(Table((own.values @ bias[..., None])[..., 0], term.zero))
    return merged(vectors), biases


def _own(terms: Sequence[GatherTable], dtype: torch.dtype) -> OwnVectors | None:
    told = [(x.own, _expanded(x, dtype)) for x in terms if x.own is not None]
    return beside([(_wide(own, dtype), table) for own, table in told]) if told else None


def _expanded(term: GatherTable | ValueTable, dtype: torch.dtype) -> Table:
    """A vector for each distance, not for each row that distances share."""
    rows = _wide(term.weight, dtype)
    return Table(rows if term.row_of is None else rows.index_select(1, term.row_of), term.zero)


def _slopes(terms: Sequence[Slope], inside: bool) -> Slopes | None:
    return merged(
        [
            Slopes(term.past, term.past if term.future is None else term.future)
            for term in terms
            if term.inside == inside
        ]
    )


def _dense(of: OfKind, positions: Positions, dtype: torch.dtype) -> Tensor | None:
    """What has a number for each pair: dense biases, all networks and grids but the first."""
    parts = [term.values for term in of.get(DenseBias, ())]
    for network in of.get(Network, ())[1:]:
        with autocast_off(positions.device):
            wide = torch.promote_types(network.output_weight.dtype, dtype)
            distance = positions.distance()[:, 0]
            parts.append(through_network(network, distance, network.by_query, wide))
    parts += [by_grid(x.values, x.q_index, x.k_index, x.zero) for x in of.get(GridTable, ())[1:]]
    return reduce(torch.add, parts) if parts else None


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


def _by_kind(terms: Sequence[Term]) -> OfKind:
    """Terms of each kind that is there. Sizes too are looked up by it, so that none is derived."""
    of: OfKind = {}
    for term in terms:
        if (kind := type(term)) not in shapes.OF_TENSORS:
            shapes.check(term)
        of.setdefault(kind, []).append(term)
    return of


def _first(of: OfKind, kind: type) -> Any:
    return of[kind][0] if kind in of else None
