"""What chunks are cut from: tensors in the arithmetic, by name, each of which may learn."""

from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.backends.backend import Call
from posenc.backends.blocked.reflections import reflected
from posenc.normal_form.form import NormalForm
from posenc.normal_form.pairs import Span, line
from posenc.polar import lifted
from posenc.rotation import per_query_head, rotate_both
from posenc.terms import ChunkZones, Householder, Polar, Zones
from posenc.torch_modes import arithmetic

# The dimension along which a tensor has one entry for each query, and for each key.
_BY_QUERY = {"q": 2, "far_q": 2, "read_q": 2, "gate_q": 2, "q_offset": 2, "scale": 2, "dense": 2}
_BY_QUERY |= {"network_by_query": 1, "next_q": 2, "beyond_q": 2, "own_block": 2, "given_q": 2}
_BY_QUERY |= {"grid_q_index": 1, "read_own": 2, "q_place": 2}
_BY_KEY = {"k": 2, "given_k": 2, "far_k": 2, "read_k": 2, "v": 2, "k_offset": 2, "dense": 3}
_BY_KEY |= {"grid_k_index": 1, "k_place": 2}
# What all heads share whatever their number; of the rest heads are the second of four dimensions,
# else the first.
_OF_ALL_HEADS = {"network_by_distance", "network_by_query", "network_hidden_weight"}
_OF_ALL_HEADS |= {"network_hidden_bias", "grid_q_index", "grid_k_index"}


@dataclass(frozen=True, eq=False)
class Operands:
    """The tensors of a call, or of a span of it, by name.

    q, k (and far_q, far_k of zones, next_q and beyond_q of zones of chunks)
                                       rotated; queries scaled by what is a number
    sink                               (1|h,), beside the scores of each row
    own_block, given_*, reflect_*      of reflections, see `reflections`
    read_q, read_k, gate_q             as given, for vectors by distance (scaled) and by count
    network_*, grid_*                  the fields of a Network, the tensors of a GridTable
    line, inside_line                  what is added at each distance (1|h, n), by diagonals
    table, past, future, inside_*      the same for distances that jump
    q_place, k_place                   coordinates that learn, for slopes of such distances
    """

    form: NormalForm
    heads: int
    diagonal: bool
    tensors: dict[str, Tensor]

    def cut(self, span: Span, heads: slice) -> dict[str, Tensor]:
        """Views of what the span reads of these query heads."""
        return {name: self._part(name, x, span, heads) for name, x in self.tensors.items()}

    def _part(self, name: str, x: Tensor, span: Span, heads: slice) -> Tensor:
        axis = 1 if x.ndim == 4 else 0
        if name not in _OF_ALL_HEADS and x.shape[axis] > 1:
            # Of key heads, those that these query heads share.
            share = self.heads // x.shape[axis]
            first, stop = heads.start // share, -(-heads.stop // share)
            x = x.narrow(axis, first, stop - first)
        if name.endswith("line"):
            positions = self.form.positions
            first = span.least(positions.k_len - positions.q_len) + positions.k_len - 1
            return x[:, first : first + span.diagonals]
        if name in _BY_QUERY and x.shape[_BY_QUERY[name]] > 1:
            x = x.narrow(_BY_QUERY[name], span.start, span.rows)
        if name in _BY_KEY and x.shape[_BY_KEY[name]] > 1:
            x = x.narrow(_BY_KEY[name], span.left, span.columns)
        return x


def operands_of(call: Call) -> Operands:
    """The operands of a whole call; gradients flow through what is made here."""
    form, positions = call.lowered.form, call.lowered.positions
    dtype, scale = arithmetic(call.q, call.k, call.v), call.scale * form.scale
    q, k, v = call.q.to(dtype), call.k.to(dtype), call.v.to(dtype)
    diagonal = positions.unit_step and positions.aligned
    tensors = {"v": v} | _rotated(form, q, k, scale, dtype) | _biases(form, scale, diagonal, dtype)
    if form.on_query is not None:
        tensors |= {"on_query": form.on_query.values.to(dtype), "read_q": q * scale}
    if form.own is not None:
        tensors |= {"own": form.own.table.values.to(dtype)}
        tensors |= {"read_own": form.own.x.to(dtype).expand(q.shape[0], -1, -1, -1) * form.scale}
    if form.on_key is not None:
        tensors |= {"on_key": form.on_key.values.to(dtype), "read_k": k * scale}
    if form.on_value is not None:
        tensors["on_value"] = form.on_value.values.to(dtype)
    if form.counts is not None:
        tensors |= {"counts": form.counts.to(dtype), "gate_q": q}
    if form.query_scale is not None:
        tensors["scale"] = form.query_scale[..., None].to(dtype)
    if form.network is not None:
        tensors |= {f"network_{name}": x for name, x in vars(form.network).items()}
    if form.grid is not None:
        names = ("values", "q_index", "k_index")
        tensors |= {f"grid_{name}": getattr(form.grid, name) for name in names}
    if form.sink is not None:
        tensors["sink"] = form.sink.to(dtype)
    if form.dense is not None:
        tensors["dense"] = form.dense
    if form.offsets is not None:
        tensors |= {"q_offset": form.offsets.q[..., None], "k_offset": form.offsets.k[..., None]}
    return Operands(form, q.shape[1], diagonal, tensors)


def _rotated(
    form: NormalForm, q: Tensor, k: Tensor, scale: float, dtype: torch.dtype
) -> dict[str, Tensor]:
    if form.rotation is None:
        return {"q": q * scale, "k": k}
    if isinstance(form.rotation, Zones):
        rotations = {"": form.rotation.near, "far_": form.rotation.far}
    elif isinstance(form.rotation, Householder):
        return reflected(form, form.rotation, q, k, scale, dtype)
    elif isinstance(form.rotation, ChunkZones):
        return _by_chunks(form.rotation, q, k, scale, dtype)
    elif isinstance(form.rotation, Polar):
        k = per_query_head(k, form.rotation.rotation, q.shape[1])
        q, k = lifted(q, k, *form.waves(dtype))
        return {"q": q * scale, "k": k}
    else:
        rotations = {"": form.rotation}
    found: dict[str, Tensor] = {}
    for name, term in rotations.items():
        rotated_q, rotated_k = rotate_both(q, per_query_head(k, term, q.shape[1]), term, dtype)
        found |= {f"{name}q": rotated_q * scale, f"{name}k": rotated_k}
    return found


def _by_chunks(
    term: ChunkZones, q: Tensor, k: Tensor, scale: float, dtype: torch.dtype
) -> dict[str, Tensor]:
    same, k = rotate_both(q, per_query_head(k, term.same, q.shape[1]), term.same, dtype)
    one, more = (rotate_both(q, k, turn, dtype)[0] for turn in (term.next, term.beyond))
    return {"q": same * scale, "next_q": one * scale, "beyond_q": more * scale, "k": k}


def line_hides(form: NormalForm) -> bool:
    """Whether who sees whom follows from the distance alone, so that a line of biases tells it."""
    seen = form.visibility
    return form.plain and not seen.sinks and not seen.prefix and seen.chunk is None


def _biases(
    form: NormalForm, scale: float, diagonal: bool, dtype: torch.dtype
) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    sides = (
        ("inside_", scale, form.inside_table, form.inside_slopes),
        ("", 1.0, form.table, form.slopes),
    )
    for name, factor, table, slopes in sides:
        if not diagonal:
            if table is not None:
                found[f"{name}table"] = table.values * factor
            if slopes is not None:
                found |= {f"{name}past": slopes.past * factor}
                found |= {f"{name}future": slopes.future * factor} | _learning_places(form)
            continue
        first, stop = 1 - form.positions.k_len, form.positions.q_len
        bias = line(table, slopes, first, stop, dtype)
        bias = bias if bias is None or factor == 1.0 else bias * factor
        if not name and line_hides(form):
            bias = _hiding(form, bias, first, stop, dtype)
        if bias is not None:
            found[f"{name}line"] = bias
    return found


def _learning_places(form: NormalForm) -> dict[str, Tensor]:
    """The coordinates of both sides where one of them learns, as a unit of time stamps may."""
    q, k = form.positions.one_axis("a distance")
    if not (q.requires_grad or k.requires_grad):
        return {}
    return {"q_place": q.view(-1, 1, q.shape[-1], 1), "k_place": k.view(-1, 1, k.shape[-1], 1)}


def _hiding(
    form: NormalForm, bias: Tensor | None, first: int, stop: int, dtype: torch.dtype
) -> Tensor | None:
    """The biases of the distances first .. stop - 1, with -inf at those that hide a pair."""
    seen, device = form.visibility, form.positions.device
    if not seen.causal and seen.window is None:
        return bias
    distance = torch.arange(first, stop, device=device)
    hidden = (distance > 0) & seen.causal
    if seen.window is not None:
        hidden = hidden | (distance.abs() >= seen.window)
    bias = torch.zeros(1, len(distance), dtype=dtype, device=device) if bias is None else bias
    return bias.masked_fill(hidden, -torch.inf)
