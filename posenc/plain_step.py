"""One token more through a cache the short way: what `attend` computes, by few questions.

A step of decoding takes so little time that checking the call, lowering the encoding and choosing a
backend would be most of it. Where terms follow from the number of a token alone, as those of RoPE,
of biases by distance, of windows, chunks and sinks, learned ones too, of lists of these and of no
position do, they are made for many tokens to come at once. Padding shifts the numbers of a row, and
hides keys.
"""

from dataclasses import replace

import torch
from torch import Tensor

from posenc.backends.backend import Call, hides_most
from posenc.caches.cache import Cache
from posenc.caches.cached_positions import continued
from posenc.caches.checks import alike, signature_of
from posenc.caches.next_token import count_next, slots_of_next, with_next
from posenc.caches.static import StaticCache
from posenc.encoding import Encoding
from posenc.errors import PositionsError
from posenc.lowering import Lowerable, Lowered, Part, check_fits, check_sizes, flatten, lower
from posenc.native.rotary_ops import rotated_into
from posenc.normal_form.features import Feature
from posenc.normal_form.form import NormalForm
from posenc.normal_form.pairs import line
from posenc.one_query import numbers, one_query, suits_one_query
from posenc.plain_query import SHORT, asks_real, learns, mask_of_terms
from posenc.positions import Positions, Tokens
from posenc.terms import Rotate
from posenc.tokens_ahead import AHEAD, Ahead, Settings, Step, learned_by
from posenc.torch_modes import arithmetic, plain, versions_of

_TURNS = frozenset({Feature.ROTATION})
_ADDS = frozenset({Feature.TABLE, Feature.SLOPES, Feature.SINK, Feature.MASK})


def plain_step(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Lowerable,
    cache: Cache,
    causal: bool | None,
    scale: float | None,
) -> Tensor | None:
    """What `attend` returns for one token more, leaving it in the cache; None for other calls."""
    if torch.compiler.is_compiling() or type(cache) not in (Cache, StaticCache):
        return None
    number = len(cache)
    if not _suits(q, k, v, cache, number):
        return None
    scale = q.shape[3] ** -0.5 if scale is None else scale
    placed = None
    if isinstance(encoding, Lowered):
        step, placed = _of_terms(encoding, cache, q, k, v, causal), encoding.positions
    else:
        single = isinstance(encoding, Encoding)
        parts = (encoding,) if single else tuple(flatten(encoding))
        step = _of_parts(parts, cache, number, q, causal, scale)
    if step is None:
        return None
    k_slot, v_slot = slots_of_next(cache, number)
    v_slot.copy_(v)
    if step.turn is None:
        k_slot.copy_(k)
    else:
        rotation, (cos, sin) = step.turn
        x, q = (q, k), torch.empty_like(q)
        rotated_into(x, (q, k_slot), (cos, cos), (sin, sin), rotation.layout, rotation.start)
    held = keys, values = with_next(cache, number + 1)
    if step.first:
        seen = number + 1 - step.first
        keys, values = keys.narrow(2, step.first, seen), values.narrow(2, step.first, seen)
    mask = step.mask
    if isinstance(encoding, Lowered):
        mask = mask_of_terms(Call(q, keys, values, encoding, scale, 0.0))
    attended = one_query(q, keys, values, scale, mask, step.sink)
    # Last, so that a call that fails leaves the cache as it was.
    count_next(cache, *held, placed)
    return attended


def _suits(q: Tensor, k: Tensor, v: Tensor, cache: Cache, number: int) -> bool:
    """Whether this is one token for a cache that keeps tokens as they come, and no more."""
    held_k, held_v = cache.k, cache.v
    if held_k is None or held_v is None or cache.payload is not None or cache.policy != "rotated":
        return False
    if held_k.requires_grad or held_v.requires_grad or not plain(held_k, held_v):
        return False
    if not suits_one_query(q, k, v) or not (alike(held_k, k) and alike(held_v, v)):
        return False
    return k.shape[2] == 1 and number > 0 and (cache.length is None or number < cache.length)


def _of_terms(
    lowered: Lowered, cache: Cache, q: Tensor, k: Tensor, v: Tensor, causal: bool | None
) -> Step | None:
    """How the token turns; what is added to its scores is asked when all keys are there."""
    form, positions = lowered.form, lowered.positions
    if lowered.length_dependent or causal not in (None, positions.causal):
        return None
    if isinstance(cache, StaticCache):
        # Its queries meet all slots, for which terms are to be lowered.
        return None
    keys = len(cache) + 1
    if positions.q_len != 1 or positions.k_len != keys or positions.batch not in (1, q.shape[0]):
        return None
    if not (form.features <= SHORT and _turns_alike(form, cache)):
        return None
    if form.visibility.prefix or hides_most(form, keys) or learns(form):
        return None
    if not asks_real(positions):
        return None
    check_sizes(form, q, k, v)
    if not isinstance(form.rotation, Rotate):
        return Step(sink=form.sink)
    return Step((form.rotation, form.waves(arithmetic(q))[0]), sink=form.sink)


def _of_parts(
    parts: tuple[Part, ...],
    cache: Cache,
    number: int,
    q: Tensor,
    causal: bool | None,
    scale: float,
) -> Step | None:
    ahead, counted = cache.ahead, cache.counted
    if ahead is not None and counted == (ahead, number):
        was_causal = ahead.positions.causal
    else:
        placed = cache.placed
        if placed is None:
            return None
        if isinstance(cache, StaticCache):
            # What was seen to count stays as it is from step to step.
            if ahead is None or ahead.slots is not placed:
                ahead = None
                if not _counts(placed):
                    return None
        elif placed.k_len != number or placed.extent != cache.length or not _counts(placed):
            return None
        elif ahead is not None and not ahead.pads_as(placed):
            ahead = None
        was_causal = placed.causal
    causal = was_causal if causal is None else causal
    settings = scale, arithmetic(q), q.shape[1], causal
    if ahead is None or not ahead.tells(parts, settings, number):
        ahead = cache.ahead = _looking_ahead(parts, settings, cache, number, q)
    learning = torch.is_grad_enabled() and any(x.requires_grad for x in ahead.learned)
    return ahead.step(number) if ahead.plain and not learning else None


def _counts(placed: Positions) -> bool:
    """Whether each row counts its tokens from 0, and none of its padding."""
    keys = placed.keys
    if not placed.unit_step or keys.document is not None or keys.position.ndim == 3:
        return False
    if placed.in_order and placed.extent is None:
        # Without an extent positions are less than the number of keys.
        return True
    if keys.valid is None:
        count = torch.arange(keys.count, device=keys.position.device)
        real = count >= 0
    else:
        real, count = keys.valid, keys.valid.cumsum(dim=-1) - 1
    told = [x for x in (keys.position, keys.order) if x is not None]
    return all(bool(((x == count) | ~real).all()) for x in told)


def _looking_ahead(
    parts: tuple[Part, ...], settings: Settings, cache: Cache, first: int, q: Tensor
) -> Ahead:
    """The tokens after those that are held."""
    scale, dtype, _, causal = settings
    placed = cache.placed
    assert placed is not None
    # All slots of a static cache are placed already.
    keys = placed.keys if placed.k_len == first else placed.ordered().keys[:first]
    placed = Positions(keys, keys, causal, placed.extent, True)
    positions = continued(placed, AHEAD, AHEAD, causal, cache.length)
    slots = torch.arange(first + AHEAD, device=q.device)
    held, last = Tokens(slots), Tokens(slots[-1:])
    learned = learned_by(parts)
    own = cache.placed if isinstance(cache, StaticCache) else None
    ahead = Ahead(parts, learned, versions_of(learned), settings, first, positions, own)
    long_way = replace(ahead, plain=False)
    if not all(map(_reads_numbers, parts)) or any(x.is_inference() for x in learned):
        return long_way
    turning = [x for x in parts if isinstance(x, Encoding) and x.family == "rotary"]
    adding = [x for x in parts if x not in turning]
    if len(turning) > 1:
        return long_way
    for part in parts:
        if isinstance(part, Encoding):
            check_fits(part, head_dim=q.shape[-1])
    count = positions.queries.position
    coming = Tokens(count, order=count)
    try:
        with torch.no_grad():
            turns = lower(turning, Positions(coming, coming, causal, unit_step=True), dtype=dtype)
            adds = lower(adding, Positions(last, held, causal, unit_step=True), dtype=dtype)
    except PositionsError:
        # A table may hold the distances of the next token, and none of others.
        return long_way
    form, added, seen = turns.form, adds.form, adds.form.visibility
    # What these add is made for the heads of queries, whatever keys there are.
    check_sizes(added, q, q, None)
    if not (form.features <= _TURNS and _turns_alike(form, cache)):
        return long_way
    if not added.features <= _ADDS or added.scale != 1.0 or seen.prefix:
        return long_way
    if seen.chunk is not None and seen.sinks:
        return long_way
    # Both are counted from where a row begins, which with padding is not at the first key.
    if positions.padded and (seen.chunk is not None or seen.sinks):
        return long_way
    if isinstance(form.rotation, Rotate) and form.q_waves is not None:
        cos, sin = (x.split(1, dim=2) for x in form.q_waves)
        waves = tuple(zip(cos, sin, strict=True))
        ahead = replace(ahead, rotation=form.rotation, waves=waves)
    with torch.no_grad():
        bias = line(*added.biases(scale), 1 - len(slots), 1, dtype)
    if bias is None and seen.sinks and seen.window is not None:
        # What hides the keys between.
        bias = torch.zeros(1, len(slots), dtype=dtype, device=q.device)
    bias = None if bias is None else bias[None, :, None]
    valid, padding = positions.keys.valid, None
    if valid is not None and not bool(valid.all()):
        # Slots are as far apart as tokens where padding comes before all of them.
        by_slot = bias is not None or seen.window is not None
        if by_slot and bool((valid[:, :-1] & ~valid[:, 1:]).any()):
            return long_way
        padding = numbers(valid[:, None, None], dtype)
    # As the kernel reads it, not made anew in every step.
    sink = None if added.sink is None else added.sink.detach().double()
    rules = {"window": seen.window, "sinks": seen.sinks, "chunk": seen.chunk}
    return replace(ahead, bias=bias, padding=padding, sink=sink, **rules)


def _reads_numbers(part: Part) -> bool:
    """Whether terms follow from the number of a token, or from how far it is from others."""
    if not isinstance(part, Encoding):
        return False
    tags = part.tags
    if part.axes > 1 or tags.length_dependent or tags.needs_context:
        return False
    if part.family == "rotary":
        return next(part.parameters(), None) is None
    return part.family == "mask" or (part.family in ("bias", "none") and tags.translation_invariant)


def _turns_alike(form: NormalForm, cache: Cache) -> bool:
    """Whether a token and its query turn by the same, all heads as one, as those before did."""
    if form.scale != 1.0:
        return False
    if not isinstance(form.rotation, Rotate):
        return cache.rotation_signature == ()
    q_waves, k_waves = form.q_waves, form.k_waves
    if q_waves is None or k_waves is not q_waves or q_waves[0].shape[1] != 1:
        return False
    return cache.rotation_signature == signature_of(form.rotation)
