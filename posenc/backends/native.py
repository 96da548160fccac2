"""Fused attention in C on CPUs: linear in memory, training included, with any term of distances.

Tables, slopes, offsets and networks are added tile by tile, tables of vectors are met by skewed
products, and tiles that masks rule out are skipped. Half precision is computed in float32. `auto`
takes it for what would else need a matrix of scores, for a single query, which reads keys where
they lie, and for plain attention that is large enough to pay for packing them; smaller calls and a
few queries stay with SDPA.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from posenc.backends.backend import (
    Backend,
    Call,
    dtype_of,
    far_operands,
    hides_most,
    operands,
    slow_in_sdpa,
)
from posenc.native.library import LIBRARY
from posenc.normal_form.features import Feature
from posenc.normal_form.form import NormalForm
from posenc.normal_form.own_vectors import beside_zeros, read_by_queries, widened
from posenc.terms import Network, Zones
from posenc.torch_modes import arithmetic, cast_to, kept_for, plain

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
        Feature.SINK,
        Feature.VECTORS,
        Feature.OWN_VECTORS,
        Feature.VALUE_VECTORS,
        Feature.COUNTS,
        Feature.MASK,
    }
)
# What leaves nothing to add to scores; torch 2.7 traces no frozen set of the outside.
_BARE = (Feature.ROTATION, Feature.POLAR, Feature.QUERY_SCALE)
# With fewer queries, packing the keys costs more than what the kernel saves; one packs none. Where
# heads share keys, SDPA takes them as rows of one product, which is faster but in 16 bits.
_FEW_QUERIES, _FEW_SHARING = 8, 12
_HALVES = torch.bfloat16, torch.float16
# Queries for each head that shares keys which pay for packing where SDPA needs a mask, beside which
# it is slow in 16 bits.
_MASKED: dict[torch.dtype | None, int] = {torch.bfloat16: 2, torch.float16: 0}
# Of plain attention, for which SDPA makes no mask: queries, and pairs of all heads, that pay for
# packing there; more pairs do where there are gradients, and fewer queries in float16.
_PLAIN, _LEARNING = (32, 2**13), (32, 2**15)
_PLAIN_IN: dict[torch.dtype | None, tuple[int, int]] = {
    torch.bfloat16: (32, 2**13),
    torch.float16: (_FEW_QUERIES, 2**11),
}
# The same with dropout, for which SDPA keeps all weights.
_DROPPED_QUERIES = 16


def attend(call: Call) -> Tensor:
    q, k, v, run, terms, of_layer = _given(call)
    learns = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    if run is None or of_layer or learns or not plain(q, k, v):
        # Here, for its operators are registered on import.
        from posenc.native.attention_operators import Inputs
        from posenc.native.attention_operators import attend as kernel

        out = kernel(Inputs(q, k, v, **terms, **of_layer))
    else:
        out = run(q, k, v)
    return cast_to(call.v.dtype, out)


def with_lse(call: Call) -> tuple[Tensor, Tensor]:
    from posenc.native.attention_operators import Inputs, attend_with_lse

    q, k, v, _, terms, of_layer = _given(call)
    out, lse = attend_with_lse(Inputs(q, k, v, **terms, **of_layer))
    return cast_to(call.v.dtype, out), lse


def _given(call: Call) -> tuple[Any, ...]:
    """q, k and v as the kernel reads them; what runs it with these terms, where nothing learns;
    and what the operator is given of the terms, and of the layer.
    """
    form, dtype = call.form, arithmetic(call.q, call.k, call.v)
    q, k, v, scale = operands(call)
    settings = scale, dtype, q.shape[1], q.shape[3]
    if form.own is not None:
        q, k, v = *widened(form, q, k, scale, dtype), v.to(dtype)
    # Every layer of one forward reads the same.
    run, terms, *_ = kept_for(form, "_terms", settings, lambda: _kept(form, *settings))
    return q, k, v, run, terms, _of_layer(call, dtype)


def _of_layer(call: Call, dtype: torch.dtype) -> dict[str, Any]:
    """What the operator is given of a layer beside q, k and v."""
    fields: dict[str, Any] = {}
    if call.form.counts is not None:
        fields["by_count"] = call.q.to(dtype) @ call.form.counts.to(dtype).mT
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


def _kept(
    form: NormalForm, scale: float, dtype: torch.dtype, heads: int, width: int
) -> tuple[Any, ...]:
    """What runs the kernel with these terms; what the operator is given of them, by name, and each
    value.
    """
    terms, run = _of_terms(form, scale, dtype, heads, width), None
    if not torch.is_grad_enabled() or not any(
        isinstance(x, Tensor) and x.requires_grad for x in terms.values()
    ):
        from posenc.native.attention_packed import attend_packed, packed

        packed_terms, terms = packed(terms)
        run = None if packed_terms is None else partial(attend_packed, packed_terms)
    return run, terms, *terms.values()


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
        fields |= _network(form.network, heads)
    if form.sink is not None:
        fields["sink"] = form.sink.double().expand(heads)
    seen = form.visibility
    return fields | {
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
    tensors = {name: x.double() for name, x in vars(network).items()}
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
        shares = call.q.shape[1] > call.k.shape[1] and dtype_of(call.q, call.k) not in _HALVES
        few = _FEW_SHARING if shares else _FEW_QUERIES
        if call.q.shape[2] < few:
            if _decodes_fast(call):
                return None
            return f"fewer than {few} queries are left to others, whose masks are small"
    positions = call.form.positions
    bare = all(feature in _BARE for feature in call.form.features)
    if bare and positions.in_order and positions.q_len == positions.k_len:
        return _plain_reason(call)
    return None


def _plain_reason(call: Call) -> str | None:
    """Why plain attention is left to SDPA, or None where it is large."""
    if torch.compiler.is_exporting():
        # An exported graph keeps its lengths open, and would be bound by a comparison.
        return "attention without bias and mask is left to SDPA in an exported graph"
    batch, heads, queries, _ = call.q.shape
    if call.dropout and queries >= _DROPPED_QUERIES:
        return None
    usual = _LEARNING if _learns(call.q, call.k, call.v) else _PLAIN
    least, pairs = _PLAIN_IN.get(dtype_of(call.q, call.k), usual)
    if queries < least or batch * heads * queries * call.k.shape[2] < pairs:
        return (
            "attention without bias and mask is left to SDPA under "
            f"{least} queries or {pairs} pairs of all heads"
        )
    return None


def _decodes_fast(call: Call) -> bool:
    """Whether this is one query, or a few meet what is slow elsewhere: far keys, two rotations,
    tables of values or 16 bits.
    """
    if call.q.shape[2] == 1:
        return True
    form, dtype = call.form, dtype_of(call.q, call.k)
    if isinstance(form.rotation, Zones) or form.on_value is not None:
        return True
    if hides_most(form, call.k.shape[2]):
        return True
    if dtype == torch.bfloat16 and not _is_wide():
        return False
    if slow_in_sdpa(call.q, call.k):
        return True
    # SDPA hides the future of a few by a mask.
    positions, least = form.positions, _MASKED.get(dtype)
    if least is None or not positions.causal or positions.q_len == positions.k_len:
        return False
    return call.q.shape[2] * call.k.shape[1] >= least * call.q.shape[1]


def _is_wide() -> bool:
    """Whether vectors are of 512 bits: with less, few queries in bfloat16 are faster in SDPA."""
    return not isinstance(LIBRARY, str) and LIBRARY.instruction_set.startswith("avx512")


def _learns(*tensors: Tensor) -> bool:
    """Whether a gradient is asked for."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


BACKEND = Backend(
    attend,
    CAN,
    devices=("cpu",),
    transforms=False,
    onnx=False,
    limits=limits,
    declines=declines,
    with_lse=with_lse,
)
