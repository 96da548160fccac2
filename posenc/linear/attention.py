"""Linear attention of whole sequences.

Letters: b batch, h query heads, g key heads, tq queries, tk keys, d head dimension, d_v value
dimension. Arithmetic in at least float32.
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor

from posenc.backends.backend import check_shapes
from posenc.errors import one_of, whole
from posenc.linear.features import FeatureMap, elu_plus_one, features_of, place_of
from posenc.linear.scan import Place, absorb, both_ways, divided, read, scan, within
from posenc.lowering import Lowerable, Lowered, lower
from posenc.positions import Positions, as_positions
from posenc.torch_modes import autocast_off


def linear_attention(
    q: Float[Tensor, "b h tq d"],
    k: Float[Tensor, "b g tk d"],
    v: Float[Tensor, "b g tk d_v"],
    rotary: Lowerable = None,
    *,
    causal: bool | None = None,
    positions: Positions | Tensor | None = None,
    feature_map: FeatureMap = elu_plus_one,
    form: Literal["parallel", "chunked", "recurrent"] = "chunked",
    chunk: int = 64,
) -> Float[Tensor, "b h tq d_v"]:
    """Attention in linear time, turned in the numerator and not in the denominator.

        out[m] = sum of (R[m] phi(q[m])) . (R[n] phi(k[n])) v[n] / sum of phi(q[m]) . phi(k[n])

    over the visible n. Turned products may be negative and do not add up to the denominator, so
    weights are no probabilities; the denominator, which is not turned, stays positive.

    rotary       what lowers to one rotation, or to nothing (None, NoPE); see `posenc.rotate`
    causal, positions  as in `posenc.attend`
    feature_map  phi, of q and of k; values must not be negative, which is not checked
    form         "parallel" holds (tq, tk) weights; "chunked" does so within chunks, and carries a
                 state from one to the next; "recurrent" carries it from token to token. They give
                 the same for all but padding, whose rows are not to be read, and the last two take
                 time and memory linear in the length
    chunk        tokens per chunk

    There is no scale, and a scaling's gain (YaRN, LongRoPE), which sharpens a softmax, is left out.
    Rows whose denominator is zero, as where nothing is visible, are zero, in the gradient too. The
    output has v's dtype. Raises UnsupportedError for encodings that are not one rotation (biases,
    tables, masks, zones, and XPos, whose factors are bounded in pairs only), SettingError for an
    unknown form, a feature_map that is no function and chunk < 1, ShapeError for shapes that do not
    fit, and PositionsError where tokens do not come in the order that a state must meet them in;
    form="parallel" takes any order.

    Example: `linear_attention(q, k, v, Rotary(64), causal=True)`.

    Source: Su et al. 2021, arXiv:2104.09864, equation 19; phi: Katharopoulos et al. 2020,
    arXiv:2006.16236, equation 7.
    """
    one_of("linear_attention", ("parallel", "chunked", "recurrent"), form=form)
    whole("linear_attention", chunk=chunk)
    check_shapes(q, k, v)
    if isinstance(rotary, Lowered):
        positions, causal = lower(rotary, positions, causal=causal).positions, None
    placed = as_positions(positions, q.shape[2], k.shape[2], causal=causal, device=q.device)
    with autocast_off(q.device):
        tokens, lowered = features_of(q, k, v, rotary, placed, feature_map)
        placed, chunk = lowered.positions, 1 if form == "recurrent" else chunk
        if form == "parallel":
            visible = placed.visible()
            sums = within(tokens, None if visible is None else visible[:, 0])
        elif placed.causal:
            sums, _ = scan(tokens, place_of(placed, "linear_attention"), tokens.empty(), chunk)
        elif placed.keys.document is not None:
            sums = both_ways(tokens, place_of(placed, "linear_attention"), chunk)
        else:
            place = Place(valid=placed.keys.valid)
            sums = read(absorb(tokens.empty(), tokens, place), tokens, None)
        return divided(sums).flatten(1, 2).to(v.dtype)
