"""scores and rotate: parts of attention, for who builds one of his own or looks into it.

Letters: b batch, h query heads, g key heads, tq queries, tk keys, d head dimension.
"""

from jaxtyping import Float
from torch import Tensor

from posenc.attention import build_call, lower_for
from posenc.dispatch_rotation import check_inplace, rotated, rotated_
from posenc.encoding import Context
from posenc.equation import scores_of
from posenc.errors import UnsupportedError
from posenc.lowering import Lowerable, Lowered, check_scale
from posenc.positions import Positions, as_positions
from posenc.rotation import rotate_both
from posenc.terms import Rotate
from posenc.torch_modes import arithmetic, autocast_off


def scores(
    q: Float[Tensor, "b h tq d"],
    k: Float[Tensor, "b g tk d"],
    encoding: Lowerable = None,
    *,
    causal: bool | None = None,
    scale: float | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
) -> Float[Tensor, "b h tq tk"]:
    """The eager definition of every term: scores of all pairs, -inf where not visible.

    In at least float32; arguments as in `attend`, and padding asks as zeros would. Values and
    dropout are not part of it. It raises what `attend` raises for them.

    Example:

        q, k = torch.randn(2, 1, 8, 256, 64).unbind()
        s = posenc.scores(q, k, posenc.ALiBi(heads=8), causal=True)
    """
    check_scale(scale)
    call = build_call(
        q, k, None, encoding, causal=causal, positions=positions, context=context, scale=scale
    )
    with autocast_off(q.device):
        return scores_of(call.q, call.k, call.lowered, call.scale)


def rotate(
    q: Float[Tensor, "b h tq d"],
    k: Float[Tensor, "b g tk d"],
    encoding: Lowerable,
    *,
    positions: Positions | Tensor | None = None,
    inplace: bool = False,
) -> tuple[Float[Tensor, "b h tq d"], Float[Tensor, "b g tk d"]]:
    """q and k rotated by a rotary encoding, in their own dtypes.

    Arithmetic is float32 (float64 for float64 inputs), from float64 angles. inplace writes into
    q and k and returns them; a tensor that needs a gradient must then be a result, no leaf and no
    view of another.

    Raises UnsupportedError for an encoding whose effect is not one rotation of each, and where
    writing in place would break the gradient, ShapeError where angles do not fit q or k, and
    PositionsError for positions of other sizes.

    Example:

        q, k = torch.randn(2, 1, 8, 256, 64).unbind()
        q, k = posenc.rotate(q, k, posenc.Rotary(64))
    """
    if isinstance(encoding, Lowered) and positions is None:
        # Straight on, for one token is rotated faster than all checks of lower_for are made.
        lowered = encoding
        as_positions(lowered.positions, q.shape[-2], k.shape[-2])
    else:
        lowered = lower_for(q, k, encoding, positions=positions)
    term = lowered.terms[0] if len(lowered.terms) == 1 else None
    if not isinstance(term, Rotate):
        kinds = [type(term).__name__ for term in lowered.terms]
        raise UnsupportedError(
            f"rotate({encoding!r}): it lowers to {kinds}, not to one Rotate; use attend or scores"
        )
    dtype = arithmetic(q, k)
    if term.grows:
        with autocast_off(q.device):
            rotated_q, rotated_k = rotate_both(q, k, term, dtype)
        if inplace:
            check_inplace(q, k)
            return q.copy_(rotated_q), k.copy_(rotated_k)
        return rotated_q.to(q.dtype), rotated_k.to(k.dtype)
    q_waves, k_waves = lowered.form.waves(dtype)
    x = (q,) if k_waves is None else (q, k)
    cos, sin = zip(*(waves for waves in (q_waves, k_waves) if waves is not None), strict=True)
    if inplace:
        turned = rotated_(x, cos, sin, term.layout, term.start)
    else:
        # To keep a launch pays where a launch takes longer than to rotate.
        owner = None if q.is_cpu else lowered.form
        turned = rotated(x, cos, sin, term.layout, term.start, owner)
    return turned[0], k if k_waves is None else turned[1]
