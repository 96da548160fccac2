"""attend, scores and rotate: what a user calls.

Letters: b batch, h query heads, g key heads, tq queries, tk keys, d head dimension.
"""

from jaxtyping import Float
from torch import Tensor

from posenc.autocast import autocast_off
from posenc.backends import BACKENDS, choose
from posenc.backends.call import Call
from posenc.build_call import build_call, lower_for
from posenc.caches.cache import Cache
from posenc.caches.rollback import unchanged_on_error
from posenc.dispatch_rotation import check_inplace, rotated, rotated_
from posenc.encoding import Context
from posenc.equation import arithmetic, scores_of
from posenc.errors import UnsupportedError
from posenc.lowering import Lowerable, Lowered
from posenc.positions import Positions, as_positions
from posenc.rotation import rotate_both
from posenc.terms import Rotate


def attend(
    q: Float[Tensor, "b h tq d"],
    k: Float[Tensor, "b g tk d"],
    v: Float[Tensor, "b g tk d_v"],
    encoding: Lowerable = None,
    *,
    causal: bool | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
    cache: Cache | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
) -> Float[Tensor, "b h tq d_v"]:
    """Attention with position: softmax(scores) v, and what value tables add.

    encoding   an Encoding, terms, a list that composes them, or what `lower` returned
    causal     a query sees no later key; None: as the positions say, else False
    positions  Positions, coordinates of the keys, or None: the queries are the LAST tq of tk tokens
    context    the layer's input, for encodings that read it
    cache      k and v are the new tokens only: they are rotated, appended and attended to
    scale      of q . k; None is d**-0.5 (T5 has none: pass 1.0)
    dropout    on the attention weights; pass 0.0 in evaluation
    backend    "auto", or one by name, which raises rather than fall back

    Rows that see nothing are zero, in the gradient too, and padding is not seen, not even NaN. The
    output has v's dtype.

    Raises ShapeError for tensors that do not fit together or an encoding of other heads,
    PositionsError for positions of other sizes or that a term cannot read, UnsupportedError for
    what is no encoding, two rotations, or a backend that cannot compute this, CacheError where
    decoding could not equal the full forward.

    Example:

        q, k, v = torch.randn(3, 1, 8, 256, 64).unbind()
        out = posenc.attend(q, k, v, posenc.T5Bias(heads=8), causal=True)
    """
    with unchanged_on_error([] if cache is None else [cache]):
        call = build_call(
            q,
            k,
            v,
            encoding,
            causal=causal,
            positions=positions,
            context=context,
            cache=cache,
            scale=scale,
            dropout=dropout,
        )
        return _run(_chosen(backend, call), call)


def explain_backend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Lowerable = None,
    *,
    causal: bool | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
) -> str:
    """Which backend `auto` takes for this call, and why those before it do not.

    One line for each backend that was asked, in order. Arguments as in `attend`, and it raises what
    `attend` raises for them.

    Example:

        q, k, v = torch.randn(3, 1, 8, 256, 64).unbind()
        print(posenc.explain_backend(q, k, v, posenc.Rotary(64), causal=True))
    """
    call = build_call(q, k, v, encoding, causal=causal, positions=positions, context=context)
    name, reasons = choose(call)
    return "\n".join(f"{name}: {reason}" for name, reason in (reasons | {name: "taken"}).items())


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

    In at least float32; arguments as in `attend`. Values and dropout are not part of it. It raises
    what `attend` raises for them.

    Example:

        q, k = torch.randn(2, 1, 8, 256, 64).unbind()
        s = posenc.scores(q, k, posenc.ALiBi(heads=8), causal=True)
    """
    call = build_call(
        q, k, k, encoding, causal=causal, positions=positions, context=context, scale=scale
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
    run = rotated_ if inplace else rotated
    if k_waves is None:
        return run((q,), q_waves[:1], q_waves[1:], term.layout, term.start)[0], k
    cos, sin = zip(q_waves, k_waves, strict=True)
    rotated_q, rotated_k = run((q, k), cos, sin, term.layout, term.start)
    return rotated_q, rotated_k


def _chosen(backend: str, call: Call) -> str:
    """The name of the backend that takes this call."""
    if backend == "auto":
        return choose(call)[0]
    if backend not in BACKENDS:
        raise UnsupportedError(
            f"attend(backend={backend!r}): known are auto, {', '.join(sorted(BACKENDS))}"
        )
    reason = BACKENDS[backend].unsupported_reason(call)
    if reason is not None:
        raise UnsupportedError(f"attend(backend={backend!r}) cannot compute this: {reason}")
    return backend


def _run(name: str, call: Call) -> Tensor:
    with autocast_off(call.q.device):
        return BACKENDS[name].attend(call)
