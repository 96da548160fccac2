"""Fused attention in C on CPUs: linear in memory, training included, with any term of distances.

Tables, slopes, offsets, networks and grids are added tile by tile, tables of vectors are met by
skewed products, and tiles that masks rule out are skipped. Half precision is computed in float32.
From where on `auto` takes it was measured: `posenc/backends/native_choice.py`.
"""

from typing import Any

import torch
from torch import Tensor

from posenc.backends.backend import (
    Backend,
    Call,
    NextLayer,
    dtype_of,
    far_operands,
    operands,
)
from posenc.backends.native_choice import (
    BARE,
    FEW_QUERIES,
    FEW_SHARING,
    HALVES,
    decodes_fast,
    few_beside_cache,
    plain_reason,
    window_reason,
)
from posenc.backends.next_layer import turned_alike, unchanged
from posenc.native.aliasing import like_rows
from posenc.native.library import LIBRARY
from posenc.normal_form.features import Feature
from posenc.normal_form.form import NormalForm
from posenc.normal_form.own_vectors import beside_zeros, read_by_queries, widened
from posenc.terms import Network, Zones
from posenc.torch_modes import arithmetic, cast_to, kept_for, named, plain

CAN = frozenset(
    {
        Feature.ROTATION,
        Feature.ZONES,
        Feature.POLAR,
        Feature.TABLE,
        Feature.SLOPES,
        Feature.QUERY_SCALE,
        Feature.OFFSETS,
        Feature.NETWORK,
        Feature.GRID,
        Feature.SINK,
        Feature.VECTORS,
        Feature.OWN_VECTORS,
        Feature.VALUE_VECTORS,
        Feature.COUNTS,
        Feature.MASK,
    }
)


def attend(call: Call) -> Tensor:
    q, k, v, known, terms, of_layer = _given(call)
    own: list[Tensor] = [x for x in of_layer.values() if isinstance(x, Tensor)]
    tensors = (q, k, v, *own)
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if known is None or learns or not plain(*tensors):
        # Here, for its operators are registered on import.
        from posenc.native.attention_operators import Inputs
        from posenc.native.attention_operators import attend as kernel

        out = kernel(Inputs(q, k, v, **terms, **of_layer))
    else:
        out = known.attend(q, k, v, of_layer)
    return cast_to(call.v.dtype, out)


def with_lse(call: Call) -> tuple[Tensor, Tensor]:
    from posenc.native.attention_operators import Inputs, attend_with_lse

    q, k, v, _, terms, of_layer = _given(call)
    out, lse = attend_with_lse(Inputs(q, k, v, **terms, **of_layer))
    return cast_to(call.v.dtype, out), lse


def _given(call: Call) -> tuple[Any, ...]:
    """q, k and v as the kernel reads them; the terms packed, where nothing learns; and what the
    operator is given of them, and of the layer.
    """
    form, dtype = call.form, arithmetic(call.q, call.k, call.v)
    q, k, v, scale = operands(call)
    known, terms = _known(form, scale, dtype, q.shape[1], q.shape[3])
    if form.own is not None:
        q, k, v = *widened(form, q, k, scale, dtype), v.to(dtype)
    return q, k, v, known, terms, _of_layer(call, dtype)


def next_layer(call: Call) -> NextLayer | None:
    """What computes this call for the tensors of the next layer: see `Backend`."""
    form, turn = call.form, turned_alike(call)
    if turn is None or form.own is not None or form.counts is not None:
        return None
    heads, width = call.q.shape[1], call.q.shape[3]
    known, _ = _known(form, call.scale * form.scale, arithmetic(call.q), heads, width)
    if known is None:
        return None
    # They lie as turned ones will, and are not turned twice for it.
    q, k = (x if form.rotation is None else like_rows(x) for x in (call.q, call.k))
    attend, as_now = known.attending(q, k, call.v), unchanged(form)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor | None:
        return attend(*turn(q, k), v) if as_now() else None

    return run


def _of_layer(call: Call, dtype: torch.dtype) -> dict[str, Any]:
    """What the operator is given of a layer beside q, k and v."""
    fields: dict[str, Any] = {}
    if call.form.counts is not None:
        fields["by_count"] = cast_to(dtype, call.q) @ cast_to(dtype, call.form.counts).mT
    if call.dropout:
        # The seed is a tensor, so that graphs draw it too.
        fields["seed"] = torch.randint(2**62, (), device=call.q.device)
        fields["dropout"] = call.dropout
    far = far_operands(call)
    if far is not None and isinstance(call.form.rotation, Zones):
        if call.form.own is not None:
            scale = 1.0 if call.form.query_scale is not None else call.scale * call.form.scale
            far = widened(call.form, *far, scale, dtype)
        fields["q_far"], fields["k_far"] = far
        fields["zone"] = call.form.rotation.width
    return fields


def _known(form: NormalForm, *settings: Any) -> tuple[Any, dict[str, Any]]:
    """What `_kept` makes of these, once: every layer of one forward reads the same."""
    known, terms, *_ = kept_for(form, "_terms", settings, lambda: _kept(form, *settings))
    return known, terms


def _kept(
    form: NormalForm, scale: float, dtype: torch.dtype, heads: int, width: int
) -> tuple[Any, ...]:
    """These terms packed; what the operator is given of them, by name, and each value."""
    terms, known = _of_terms(form, scale, dtype, heads, width), None
    if not torch.is_grad_enabled() or not any(
        isinstance(x, Tensor) and x.requires_grad for x in terms.values()
    ):
        from posenc.native.attention_packed import packed

        known = packed(terms)
        terms = terms if known is None else known.terms
    return known, terms, *terms.values()


def _of_terms(
    form: NormalForm, scale: float, dtype: torch.dtype, heads: int, width: int
) -> dict[str, Any]:
    """The inputs of the operator that no layer changes."""
    positions = form.positions
    table, slopes = form.biases(scale)
    on_key = form.on_key
    if form.own is not None:
        on_key = None if on_key is None else beside_zeros(on_key.times(scale), form.own)
        # Queries come scaled.
        scale = 1.0
    tables = {
        "table": table,
        "on_query": form.on_query if form.own is None else read_by_queries(form, width),
        "on_key": on_key,
        "on_value": form.on_value,
    }
    fields: dict[str, Any] = {}
    for name, by_distance in tables.items():
        if by_distance is not None:
            fields[name] = by_distance.values.to(dtype)
            fields[f"{name}_zero"] = by_distance.zero
    if slopes is not None:
        past, alike = slopes.past.double(), slopes.future is slopes.past
        fields["past"], fields["future"] = past, past if alike else slopes.future.double()
    if form.offsets is not None:
        fields["q_offset"] = form.offsets.q.double()
        fields["k_offset"] = form.offsets.k.double()
    if form.network is not None:
        fields.update(_network(form.network, heads))
    if form.grid is not None:
        grid = form.grid
        fields.update(grid_table=grid.values.to(dtype), grid_table_zero=grid.zero)
        fields.update(grid_q_index=grid.q_index, grid_k_index=grid.k_index)
    if form.sink is not None:
        fields["sink"] = form.sink.double().expand(heads)
    seen = form.visibility
    # Of two dictionaries torch 2.7 traces no |.
    return {
        **fields,
        "q_order": positions.queries.order,
        "k_order": positions.keys.order,
        "q_document": positions.queries.document,
        "k_document": positions.keys.document,
        "valid": positions.keys.valid,
        "scale": scale,
        "causal": seen.causal,
        "window": -1 if seen.window is None else seen.window,
        "sinks": seen.sinks,
        "prefix": seen.prefix,
        "chunk": seen.chunk or 0,
    }


def _network(network: Network, heads: int) -> dict[str, Tensor]:
    """The tensors of a network, by the names of the operator."""
    tensors = {name: x.double() for name, x in named(network).items()}
    tensors["by_distance"] = tensors["by_distance"][None]
    tensors["output_weight"] = tensors["output_weight"].expand(heads, -1)
    tensors["output_bias"] = tensors["output_bias"].expand(heads)
    return {f"network_{name}": x for name, x in tensors.items()}


def limits(call: Call) -> str | None:
    if isinstance(LIBRARY, str):
        return LIBRARY
    form = call.form
    inside = form.inside_table, form.inside_slopes, form.on_query, form.on_key, form.own
    if form.counts is not None and any(bias is not None for bias in inside):
        return "CountTable counts content alone, beside no bias and no vectors inside the scale"
    if form.counts is not None and isinstance(form.rotation, Zones):
        return "CountTable beside Zones counts over both of them"
    return None


def declines(call: Call) -> str | None:
    """Why `auto` leaves a call that it can compute to the next."""
    if call.lse or call.form.sink is not None:
        # What is left to others is left to SDPA, which has no such sum and no sink.
        return None
    # A graph would be bound to the lengths that give the same answer.
    if not torch.compiler.is_compiling():
        shares = call.q.shape[1] > call.k.shape[1] and dtype_of(call.q, call.k) not in HALVES
        few = FEW_SHARING if shares else FEW_QUERIES
        if call.form.positions.q_len < call.form.positions.k_len:
            few = max(few, few_beside_cache(call))
        if call.q.shape[2] < few:
            if decodes_fast(call):
                return None
            return f"fewer than {few} queries are left to others, whose masks are small"
    positions = call.form.positions
    bare = all(feature in (*BARE, Feature.GRID) for feature in call.form.features)
    if bare and positions.in_order and positions.q_len == positions.k_len:
        return plain_reason(call) if call.form.grid is None else window_reason(call)
    return None


BACKEND = Backend(
    attend,
    CAN,
    devices=("cpu",),
    transforms=False,
    onnx=False,
    limits=limits,
    declines=declines,
    with_lse=with_lse,
    next_layer=next_layer,
)
