"""Linear attention step by step, with a state of constant size.

Letters: b batch, h query heads, g key heads, t new tokens, d head dimension, d_v value dimension.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.backends.backend import check_shapes
from posenc.errors import CacheError, PositionsError, ShapeError, shown, whole
from posenc.linear.features import FeatureMap, elu_plus_one, features_of, place_of
from posenc.linear.scan import LinearState, Place, divided, scan
from posenc.lowering import Lowerable, Lowered
from posenc.positions import Positions, Tokens, as_positions
from posenc.torch_modes import arithmetic, autocast_off


def linear_step(
    q: Float[Tensor, "b h t d"],
    k: Float[Tensor, "b g t d"],
    v: Float[Tensor, "b g t d_v"],
    rotary: Lowerable = None,
    state: LinearState | None = None,
    *,
    positions: Positions | Tensor | None = None,
    feature_map: FeatureMap = elu_plus_one,
    chunk: int = 64,
) -> tuple[Float[Tensor, "b h t d_v"], LinearState]:
    """Causal `linear_attention` of t new tokens to themselves and to all before, in the state.

    Returns the output, and the state after the new tokens; the one given is not changed. None is
    the state before the first token. positions None count on from the state; given ones are those
    of the new tokens, or of all tokens so far, of which the new ones are the last. In a packed
    sequence a new document begins anew, and the state is that of the last one.

    Raises CacheError for what is no state or one of other sizes, and where angles depend on the
    length but steps are not all given the final one, Positions.build(extent=...); PositionsError
    where the coordinates so far were explicit and the next ones are left away; else as
    `linear_attention`.

    Example: `out, state = linear_step(q, k, v, Rotary(64), state)`.
    """
    check_shapes(q, k, v)
    whole("linear_step", chunk=chunk)
    t = k.shape[2]
    if q.shape[2] != t:
        raise ShapeError(
            "linear_step takes queries and keys of the same new tokens: "
            f"got {q.shape[2]} queries, {t} keys"
        )
    if state is not None and not isinstance(state, LinearState):
        raise CacheError(
            f"linear_step(state={shown(state)}): a state is what linear_step returned for the "
            "tokens before, and no cache; None is that before the first"
        )
    if positions is None and isinstance(rotary, Lowered):
        positions = rotary.positions
    if state is not None:
        _check_alike(state.numerator, arithmetic(q, k), q.device)
    counting = positions is None
    placed = _counted_on(state, t, q.device) if positions is None else _ending_with(positions, t)
    with autocast_off(q.device):
        tokens, lowered = features_of(q, k, v, rotary, placed, feature_map)
        placed, before = lowered.positions, tokens.empty() if state is None else state
        place = place_of(placed, "linear_step").part(slice(placed.k_len - t, None))
        if state is not None:
            _check_state(state, tokens.empty(), place)
            if place.document is None and state.document is not None:
                place = replace(place, document=state.document[:, None].expand(-1, t))
        extent = _extent(lowered, state)
        sums, after = scan(tokens, place, before, chunk)
        position = _following(placed, place, state, counting)
        out = divided(sums).flatten(1, 2).to(v.dtype)
        return out, replace(after, position=position, extent=extent)


def _counted_on(state: LinearState | None, t: int, device: torch.device) -> Positions:
    """Positions of t tokens right after those in the state."""
    if state is None:
        return Positions.build(t, causal=True, device=device)
    if state.position is None:
        raise PositionsError(
            "linear_step: the coordinates so far were explicit, so the next ones cannot be counted "
            "on: give those of the new tokens as positions"
        )
    tokens = Tokens(state.position[:, None] + torch.arange(t, device=device))
    return Positions(tokens, tokens, causal=True, extent=state.extent)


def _ending_with(positions: Positions | Tensor, t: int) -> Positions:
    """Positions whose queries are the t new tokens."""
    if isinstance(positions, Tensor):
        tokens = positions.shape[0 if positions.ndim == 1 else 1]
    else:
        tokens = positions.k_len
    return as_positions(positions, t, max(t, tokens), causal=True)


def _following(
    placed: Positions, place: Place, state: LinearState | None, counting: bool
) -> Int[Tensor, "#b"] | None:
    """The coordinate after the last real token; None after explicit ones, which have no next."""
    before = None if state is None else state.position
    if counting and before is not None:
        return before + placed.k_len
    if not placed.unit_step:
        return None
    end = placed.keys.position.view(-1, placed.k_len)[:, placed.k_len - placed.q_len :] + 1
    if place.valid is not None:
        end = torch.where(place.valid, end, 0)
    if place.document is not None:
        last = place.last_document(None if state is None else state.document)
        end = torch.where(place.document == last[:, None], end, 0)
        if before is not None and state is not None and state.document is not None:
            before = torch.where(state.document == last, before, 0)
    end = end.amax(dim=-1)
    # Where all new tokens of a row are padding, it stays where it was.
    return end if before is None else torch.maximum(end, before)


def _check_alike(held: Tensor, dtype: torch.dtype, device: torch.device) -> None:
    if held.dtype != dtype or held.device != device:
        raise CacheError(
            f"linear_step got a state of {held.dtype} on {held.device}, but these tokens make one "
            f"of {dtype} on {device}: use one state per layer and per batch"
        )


def _check_state(state: LinearState, empty: LinearState, place: Place) -> None:
    held, need = ((tuple(s.numerator.shape), tuple(s.denominator.shape)) for s in (state, empty))
    if held != need:
        raise CacheError(
            f"linear_step got a state with a numerator of shape {held[0]} and a denominator of "
            f"{held[1]}, but these tokens make {need[0]} and {need[1]}: use one state per layer "
            "and per batch"
        )
    if place.document is not None and state.document is None:
        raise CacheError(
            "linear_step got documents, but the state is of tokens without: give documents from "
            "the first step on"
        )


def _extent(lowered: Lowered, state: LinearState | None) -> int | None:
    """The extent of angles that depend on the length; the same one in every step, or CacheError."""
    if not lowered.length_dependent:
        return None
    extent = lowered.positions.extent
    if extent is None or (state is not None and state.extent != extent):
        before = "" if state is None else f", and the state was made for {state.extent}"
        raise CacheError(
            "linear_step: these angles depend on the length of the input, so that every step "
            f"needs the final one; got an extent of {extent}{before}: "
            "give Positions.build(..., extent=...) in the first step"
        )
    return extent
