"""One query on keys that somebody else keeps the short way: as `attend`, by fewer questions.

Models of other libraries with posenc attached decode so: they call `attend` in every layer, bare
or with terms that were lowered once.
"""

from torch import Tensor

from posenc.backends.backend import Call, hides_most
from posenc.backends.sdpa import mask_of
from posenc.lowering import Lowerable, Lowered
from posenc.native.rotary_ops import rotated
from posenc.normal_form.features import Feature
from posenc.normal_form.normalise import check_heads
from posenc.one_query import one_query, suits_one_query
from posenc.terms import Rotate
from posenc.torch_modes import arithmetic

# What comes to a rotation and a mask of numbers.
_SHORT = frozenset(
    {
        Feature.ROTATION,
        Feature.TABLE,
        Feature.SLOPES,
        Feature.OFFSETS,
        Feature.NETWORK,
        Feature.DENSE,
        Feature.MASK,
    }
)


def plain_query(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Lowerable,
    causal: bool | None,
    scale: float | None,
) -> Tensor | None:
    """What `attend` returns for one query, bare or of lowered terms; None for other calls."""
    if not (encoding is None or isinstance(encoding, Lowered)) or not suits_one_query(q, k, v):
        return None
    scale = q.shape[3] ** -0.5 if scale is None else scale
    if encoding is None:
        return one_query(q, k, v, scale)
    form, positions = encoding.form, encoding.positions
    if not form.features <= _SHORT or encoding.keys_prerotated or positions.keys.valid is not None:
        return None
    if causal not in (None, positions.causal) or positions.batch not in (1, q.shape[0]):
        return None
    if positions.q_len != 1 or positions.k_len != k.shape[2] or hides_most(form, k.shape[2]):
        return None
    check_heads(form, q.shape[1])
    if isinstance(form.rotation, Rotate):
        # Factors that grow leave the range of 16 bits.
        q_waves, k_waves = (None, None) if form.rotation.grows else form.waves(arithmetic(q))
        if q_waves is None or k_waves is None:
            return None
        if q_waves[0].shape[1] != 1 or k_waves[0].shape[1] != 1:
            return None
        cos, sin = zip(q_waves, k_waves, strict=True)
        q, k = rotated((q, k), cos, sin, form.rotation.layout, form.rotation.start)
    mask = mask_of(Call(q, k, v, encoding, scale, 0.0), scale * form.scale)[0]
    return one_query(q, k, v, scale * form.scale, mask)
