"""One token more through a cache the short way: what `attend` computes, by few questions.

A step of decoding takes so little time that checking the call, lowering the encoding and choosing a
backend would be most of it. Where terms follow from the number of a token alone, as those of RoPE,
of biases by distance and of no position do, they are made for many tokens to come at once.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posenc.caches.cache import Cache
from posenc.caches.checks import alike, signature_of
from posenc.caches.growing_buffer import behind
from posenc.encoding import Encoding
from posenc.errors import PositionsError
from posenc.lowering import Lowerable, Lowered, check_fits, lower
from posenc.native.rotary_ops import rotated
from posenc.normal_form.features import Feature
from posenc.normal_form.form import NormalForm
from posenc.normal_form.normalise import check_heads
from posenc.normal_form.pairs import line
from posenc.one_query import one_query, suits_one_query
from posenc.positions import Positions, Tokens
from posenc.rotation import CosSin
from posenc.terms import Rotate
from posenc.torch_modes import altered, arithmetic, plain

# Tokens whose terms are made at once.
_AHEAD = 64
_TURNS = frozenset({Feature.ROTATION})
_BY_DISTANCE = frozenset({Feature.TABLE, Feature.SLOPES})
Settings = tuple[float, torch.dtype, int, bool]


@dataclass(frozen=True, eq=False)
class Step:
    """What a token adds to its number: how it turns, and what is added to its scores.

    positions  of one query and of all keys
    turn       the rotation, and cos and sin (1, 1, 1, r); None where nothing turns
    bias       (1|h, tk), by key; None where nothing is added
    """

    positions: Positions
    turn: tuple[Rotate, CosSin] | None = None
    bias: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Ahead:
    """Tokens to come, of an encoding that reads nothing of them but their number.

    learned    its parameters, kept so that `versions` tells them from others
    settings   the scale of q . k, the dtype of the arithmetic, query heads, whether they are causal
    first      the number of the first of them
    positions  of them and of all before
    rotation   None where nothing turns
    waves      cos and sin (1, 1, 1, r) of each that turns
    bias       what is added to the scores of the last of them, (1|h, tk)
    plain      False where a number is not enough, and they go the long way
    """

    encoding: Encoding | None
    learned: tuple[Tensor, ...]
    versions: list[tuple[int, int, int]]
    settings: Settings
    first: int
    positions: Positions
    rotation: Rotate | None = None
    waves: tuple[CosSin, ...] = ()
    bias: Tensor | None = None
    plain: bool = True

    def tells(self, encoding: Encoding | None, settings: Settings, number: int) -> bool:
        """Whether this token of this encoding, with what it has learned by now, is one of them."""
        if self.encoding is not encoding or self.settings != settings:
            return False
        if not self.first <= number < self.first + _AHEAD:
            return False
        return not self.learned or self.versions == _versions(encoding)

    def step(self, number: int) -> Step:
        """The terms of this token."""
        tokens, keys = self.positions.keys, number + 1
        query = altered(tokens, position=tokens.position.narrow(0, number, 1))
        held = altered(tokens, position=tokens.position.narrow(0, 0, keys))
        positions = altered(self.positions, queries=query, keys=held)
        if self.rotation is not None:
            return Step(positions, (self.rotation, self.waves[number - self.first]))
        if self.bias is not None:
            # The same distances from a query that comes before.
            return Step(positions, bias=self.bias.narrow(1, self.bias.shape[1] - keys, keys))
        return Step(positions)


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
    if torch.compiler.is_compiling() or type(cache) is not Cache or not _suits(q, k, v, cache):
        return None
    scale = q.shape[3] ** -0.5 if scale is None else scale
    if isinstance(encoding, Lowered):
        step = _of_terms(encoding, cache, q, causal)
    elif encoding is None or isinstance(encoding, Encoding):
        step = _of_encoding(encoding, cache, q, causal, scale)
    else:
        step = None
    if step is None:
        return None
    if step.turn is not None:
        rotation, (cos, sin) = step.turn
        q, k = rotated((q, k), (cos, cos), (sin, sin), rotation.layout, rotation.start)
    assert cache.k is not None
    assert cache.v is not None
    k_buffer, v_buffer = cache.buffers
    k, k_buffer = behind(cache.k, k, k_buffer, cache.length)
    v, v_buffer = behind(cache.v, v, v_buffer, cache.length)
    mask = None if step.bias is None else step.bias[None, :, None]
    out = one_query(q, k, v, scale, mask)
    # Last, so that a call that fails leaves the cache as it was.
    cache.k, cache.v, cache.buffers, cache.placed = k, v, (k_buffer, v_buffer), step.positions
    return out


def _suits(q: Tensor, k: Tensor, v: Tensor, cache: Cache) -> bool:
    """Whether this is one token for a cache that keeps tokens as they come, and no more."""
    held_k, held_v = cache.k, cache.v
    if held_k is None or held_v is None or cache.payload is not None or cache.policy != "rotated":
        return False
    if held_k.requires_grad or held_v.requires_grad or not plain(held_k, held_v):
        return False
    if not suits_one_query(q, k, v) or not (alike(held_k, k) and alike(held_v, v)):
        return False
    return k.shape[2] == 1 and (cache.length is None or len(cache) < cache.length)


def _of_terms(lowered: Lowered, cache: Cache, q: Tensor, causal: bool | None) -> Step | None:
    form, positions = lowered.form, lowered.positions
    if lowered.length_dependent or causal not in (None, positions.causal):
        return None
    if positions.q_len != 1 or positions.k_len != len(cache) + 1 or not positions.in_order:
        return None
    if positions.batch != 1 or not (form.features <= _TURNS and _turns_alike(form, cache)):
        return None
    if not isinstance(form.rotation, Rotate):
        return Step(positions)
    return Step(positions, (form.rotation, form.waves(arithmetic(q))[0]))


def _of_encoding(
    encoding: Encoding | None, cache: Cache, q: Tensor, causal: bool | None, scale: float
) -> Step | None:
    placed = cache.placed
    if placed is None or placed.k_len != len(cache) or placed.keys.position.ndim != 1:
        return None
    if not (placed.in_order and placed.unit_step) or placed.extent is not None:
        return None
    causal = placed.causal if causal is None else causal
    settings = scale, arithmetic(q), q.shape[1], causal
    number, ahead = placed.k_len, cache.ahead
    if ahead is None or not ahead.tells(encoding, settings, number):
        ahead = cache.ahead = _looking_ahead(encoding, settings, cache, q)
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in ahead.learned)
    return ahead.step(number) if ahead.plain and not learns else None


def _looking_ahead(encoding: Encoding | None, settings: Settings, cache: Cache, q: Tensor) -> Ahead:
    """The tokens after those that are held."""
    scale, dtype, heads, causal = settings
    first = len(cache)
    numbers = torch.arange(first + _AHEAD, device=q.device)
    held = Tokens(numbers)
    positions = Positions(held, held, causal, unit_step=True)
    learned = () if encoding is None else tuple(encoding.parameters())
    ahead = Ahead(encoding, learned, _versions(encoding), settings, first, positions)
    long_way = replace(ahead, plain=False)
    if encoding is None:
        return ahead if cache.rotation_signature == () else long_way
    if not _reads_numbers(encoding) or any(x.is_inference() for x in learned):
        return long_way
    check_fits(encoding, head_dim=q.shape[-1])
    turns = encoding.family == "rotary"
    coming = Tokens(numbers[first:] if turns else numbers[-1:])
    keys = coming if turns else held
    try:
        with torch.no_grad():
            lowered = lower(encoding, Positions(coming, keys, causal, unit_step=True), dtype=dtype)
    except PositionsError:
        # A table may hold the distances of the next token, and none of others.
        return long_way
    form = lowered.form
    check_heads(form, heads)
    if not (form.features <= (_TURNS if turns else _BY_DISTANCE) and _turns_alike(form, cache)):
        return long_way
    if isinstance(form.rotation, Rotate) and form.q_waves is not None:
        cos, sin = (x.split(1, dim=2) for x in form.q_waves)
        return replace(ahead, rotation=form.rotation, waves=tuple(zip(cos, sin, strict=True)))
    with torch.no_grad():
        bias = line(*form.biases(scale), 1 - len(numbers), 1, dtype)
    return replace(ahead, bias=bias)


def _reads_numbers(encoding: Encoding) -> bool:
    """Whether terms follow from the number of a token, or from how far it is from others."""
    tags = encoding.tags
    if encoding.axes > 1 or tags.length_dependent or tags.needs_context:
        return False
    if encoding.family == "rotary":
        return next(encoding.parameters(), None) is None
    return encoding.family in ("bias", "none") and tags.translation_invariant


def _versions(encoding: Encoding | None) -> list[tuple[int, int, int]]:
    """What changes where a parameter learns, is exchanged, or is given other memory."""
    learned = () if encoding is None else encoding.parameters()
    # Parameters of inference mode count no versions.
    return [(id(x), -1 if x.is_inference() else x._version, x.data_ptr()) for x in learned]


def _turns_alike(form: NormalForm, cache: Cache) -> bool:
    """Whether a token and its query turn by the same, all heads as one, as those before did."""
    if form.scale != 1.0:
        return False
    if not isinstance(form.rotation, Rotate):
        return cache.rotation_signature == ()
    q_waves, k_waves = form.q_waves, form.k_waves
    if q_waves is None or k_waves is not q_waves or q_waves[0].shape[:2] != (1, 1):
        return False
    return cache.rotation_signature == signature_of(form.rotation)
