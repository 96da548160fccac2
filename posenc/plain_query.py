"""One query on keys that somebody else keeps the short way: as `attend`, by fewer questions.

Models of other libraries with posenc attached decode so: they call `attend` in every layer, bare
or with terms that were lowered once.
"""

import torch
from torch import Tensor

from posenc.backends.backend import Call, NextLayer, hides_most
from posenc.backends.next_layer import turned_alike, unchanged
from posenc.backends.sdpa import keeps_mask, mask_of
from posenc.lowering import Lowerable, Lowered, check_sizes
from posenc.native import query
from posenc.native.rotary_ops import rotated
from posenc.normal_form.features import Feature
from posenc.normal_form.form import NormalForm
from posenc.one_query import one_query, suits_one_query, unsupported_reason
from posenc.plain_layer import Layer, remember
from posenc.positions import Positions
from posenc.terms import Rotate
from posenc.torch_modes import arithmetic

# What needs no mask.
_BARE = frozenset({Feature.ROTATION, Feature.SINK})
# What comes to a rotation, a mask of numbers and a sink.
SHORT = frozenset(
    {
        Feature.ROTATION,
        Feature.TABLE,
        Feature.SLOPES,
        Feature.OFFSETS,
        Feature.NETWORK,
        Feature.SINK,
        Feature.DENSE,
        Feature.MASK,
    }
)


def suits_plain_query(
    q: Tensor, k: Tensor, v: Tensor, encoding: Lowerable, causal: bool | None
) -> bool:
    """Whether this is one query, bare or of lowered terms that come to turning and masking it, and
    to a sink.

    Raises ShapeError for terms of other heads.
    """
    if not (encoding is None or isinstance(encoding, Lowered)) or not suits_one_query(q, k, v):
        return False
    if encoding is None:
        return True
    form, positions = encoding.form, encoding.positions
    if not form.features <= SHORT or encoding.keys_prerotated:
        return False
    if positions.padded and not _leaves_padding_unread(q, form):
        return False
    if causal not in (None, positions.causal) or positions.batch not in (1, q.shape[0]):
        return False
    if positions.q_len != 1 or positions.k_len != k.shape[2] or hides_most(form, k.shape[2]):
        return False
    check_sizes(form, q, k, v)
    if not isinstance(form.rotation, Rotate):
        return True
    # Factors that grow leave the range of float16.
    if form.rotation.grows and (form.q_waves is None or q.dtype == torch.float16):
        return False
    return all(x is not None and x[0].shape[1] == 1 for x in form.waves(arithmetic(q)))


def _leaves_padding_unread(q: Tensor, form: NormalForm) -> bool:
    """Whether the query is real, and the C kernel takes it, which reads nothing that is hidden."""
    return query.suits(q) and not learns(form) and asks_real(form.positions)


def learns(form: NormalForm) -> bool:
    """Whether a gradient is to reach the terms."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in form.tensors)


def asks_real(positions: Positions) -> bool:
    """Whether no query is padding."""
    valid = positions.queries.valid
    return valid is None or bool(valid.all())


def plain_query(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Lowerable,
    causal: bool | None,
    scale: float | None,
    layer: Layer | None = None,
) -> Tensor | None:
    """What `attend` returns for one query, bare or of lowered terms; None for other calls."""
    if not suits_plain_query(q, k, v, encoding, causal):
        return None
    scale = q.shape[3] ** -0.5 if scale is None else scale
    if not isinstance(encoding, Lowered):
        return one_query(q, k, v, scale)
    call = Call(q, k, v, encoding, scale, 0.0)
    if layer is not None:
        remember(layer, call, _of_terms, _next_layer)
    return _of_terms(call)


def kernel_reason(call: Call) -> str | None:
    """Why `plain_query` leaves a call that suits it to SDPA; None where the C kernel takes it."""
    return unsupported_reason(*_turned(call), call.form.sink)


def _of_terms(call: Call) -> Tensor:
    """The query turned and masked as its terms say, which come to no more than that."""
    q, k, v, mask = _turned(call)
    return one_query(q, k, v, call.scale * call.form.scale, mask, call.form.sink)


def _next_layer(call: Call) -> NextLayer | None:
    """What `_of_terms` gives for the tensors of the next layer: see `Backend`."""
    turn = turned_alike(call) if keeps_mask(call) else None
    if turn is None:
        return None
    form, as_now = call.form, unchanged(call.form)
    mask, scale, sink = mask_of_terms(call), call.scale * form.scale, form.sink

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor | None:
        if not as_now():
            return None
        q, k = turn(q, k)
        return one_query(q, k, v, scale, mask, sink)

    return run


def _turned(call: Call) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The query and the keys as they meet, the values, and the mask."""
    form, q, k = call.form, call.q, call.k
    q_waves, k_waves = (None, None) if form.rotation is None else form.waves(arithmetic(q))
    if isinstance(form.rotation, Rotate) and q_waves is not None and k_waves is not None:
        cos, sin = (q_waves[0], k_waves[0]), (q_waves[1], k_waves[1])
        layout, start = form.rotation.layout, form.rotation.start
        q, k = rotated((q, k), cos, sin, layout, start)
    return q, k, call.v, mask_of_terms(call)


def mask_of_terms(call: Call) -> Tensor | None:
    """What is added to the scores of the query; None where there is nothing."""
    form = call.form
    bare = form.features <= _BARE and form.positions.in_order
    return None if bare else mask_of(call, call.scale * form.scale)[0]
