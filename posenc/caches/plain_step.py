"""One more token of attention without bias or mask, as models with RoPE decode.

It is turned, written behind the tokens that are held, and meets all of them. `attend` computes the
same for any call; a step is so short that questions take most of its time, and here they are
answered for many tokens at once.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.backends.sdpa import one_query, suits_one_query
from posenc.caches.cache import Cache
from posenc.caches.checks import alike, signature_of
from posenc.caches.growing_buffer import behind
from posenc.encoding import Encoding
from posenc.encodings._rotary import RotaryEncoding
from posenc.lowering import Lowerable, Lowered, check_fits, lower
from posenc.native.rotary_ops import rotated
from posenc.normal_form.features import Feature
from posenc.positions import Positions, Tokens
from posenc.rotation import CosSin
from posenc.terms import Rotate, Zones
from posenc.torch_modes import altered, arithmetic, plain

# Tokens whose angles are made at once.
_AHEAD = 64
_TURNS = frozenset({Feature.ROTATION})


@dataclass(frozen=True, eq=False)
class Ahead:
    """Tokens to come, of an encoding that reads nothing of them but their number.

    dtype      of the arithmetic that waves are for
    first      the number of the first of them
    positions  of them and of all before
    rotation   None where nothing turns
    waves      cos and sin (1, 1, 1, r) of each
    """

    encoding: Encoding | None
    dtype: torch.dtype
    first: int
    positions: Positions
    rotation: Rotate | Zones | None
    waves: tuple[CosSin | None, ...]

    def tells(
        self, encoding: Encoding | None, dtype: torch.dtype, causal: bool, number: int
    ) -> bool:
        """Whether this token is one of them."""
        same = self.encoding is encoding and self.dtype == dtype
        same = same and self.positions.causal == causal
        return same and self.first <= number < self.first + len(self.waves)

    def up_to(self, number: int) -> Positions:
        """Positions of this token as the query, and of all keys up to it."""
        tokens = self.positions.keys
        query = altered(tokens, position=tokens.position.narrow(0, number, 1))
        keys = altered(tokens, position=tokens.position.narrow(0, 0, number + 1))
        return altered(self.positions, queries=query, keys=keys)


# Positions of a step, and how its token turns.
Step = tuple[Positions, Rotate | Zones | None, CosSin | None]


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
    if isinstance(encoding, Lowered):
        step = _of_terms(encoding, cache, q, causal)
    elif encoding is None or (isinstance(encoding, Encoding) and encoding.family == "rotary"):
        step = _of_encoding(encoding, cache, q, causal)
    else:
        step = None
    if step is None:
        return None
    positions, rotation, waves = step
    if isinstance(rotation, Rotate) and waves is not None:
        cos, sin = waves
        q, k = rotated((q, k), (cos, cos), (sin, sin), rotation.layout, rotation.start)
    assert cache.k is not None
    assert cache.v is not None
    k_buffer, v_buffer = cache.buffers
    k, k_buffer = behind(cache.k, k, k_buffer, cache.length)
    v, v_buffer = behind(cache.v, v, v_buffer, cache.length)
    out = one_query(q, k, v, scale)
    # Last, so that a call that fails leaves the cache as it was.
    cache.k, cache.v, cache.buffers, cache.placed = k, v, (k_buffer, v_buffer), positions
    return out


def _suits(q: Tensor, k: Tensor, v: Tensor, cache: Cache) -> bool:
    """Whether this is one token for a cache that keeps tokens as they come, and no more."""
    held_k, held_v = cache.k, cache.v
    if held_k is None or held_v is None or cache.payload is not None or cache.policy != "rotated":
        return False
    if held_k.requires_grad or held_v.requires_grad or not plain(held_k, held_v):
        return False
    held = len(cache)
    if not suits_one_query(q, k, v, held) or not (alike(held_k, k) and alike(held_v, v)):
        return False
    return k.shape[2] == 1 and (cache.length is None or held < cache.length)


def _of_terms(lowered: Lowered, cache: Cache, q: Tensor, causal: bool | None) -> Step | None:
    form, positions = lowered.form, lowered.positions
    if lowered.length_dependent or causal not in (None, positions.causal):
        return None
    if positions.q_len != 1 or positions.k_len != len(cache) + 1 or not positions.in_order:
        return None
    if not _turns_alone(lowered, cache):
        return None
    waves = None if form.rotation is None else form.waves(arithmetic(q))[0]
    return positions, form.rotation, waves


def _of_encoding(
    encoding: Encoding | None, cache: Cache, q: Tensor, causal: bool | None
) -> Step | None:
    placed = cache.placed
    if placed is None or placed.k_len != len(cache) or placed.keys.position.ndim != 1:
        return None
    if not (placed.in_order and placed.unit_step) or placed.extent is not None:
        return None
    number, dtype = placed.k_len, arithmetic(q)
    causal = placed.causal if causal is None else causal
    ahead = cache.ahead
    if ahead is None or not ahead.tells(encoding, dtype, causal, number):
        ahead = cache.ahead = _looking_ahead(encoding, cache, q, causal)
    if ahead is None:
        return None
    return ahead.up_to(number), ahead.rotation, ahead.waves[number - ahead.first]


def _looking_ahead(
    encoding: Encoding | None, cache: Cache, q: Tensor, causal: bool
) -> Ahead | None:
    """The tokens after those that are held, or None where more than their number is read."""
    if encoding is not None:
        by_number = type(encoding).lower is RotaryEncoding.lower and encoding.axes == 1
        by_number = by_number and not encoding.tags.length_dependent
        if not by_number or next(encoding.parameters(), None) is not None:
            return None
        check_fits(encoding, head_dim=q.shape[-1])
    first = len(cache)
    numbers = torch.arange(first + _AHEAD, device=q.device)
    coming, dtype = Tokens(numbers[first:]), arithmetic(q)
    own = Positions(coming, coming, causal, first + _AHEAD, unit_step=True)
    lowered = lower(encoding, own, dtype=dtype)
    if not _turns_alone(lowered, cache):
        return None
    rotation, waves = lowered.form.rotation, (None,) * _AHEAD
    if lowered.form.q_waves is not None:
        cos, sin = lowered.form.q_waves
        waves = tuple(zip(cos.split(1, dim=2), sin.split(1, dim=2), strict=True))
    held = Tokens(numbers)
    return Ahead(
        encoding, dtype, first, Positions(held, held, causal, unit_step=True), rotation, waves
    )


def _turns_alone(lowered: Lowered, cache: Cache) -> bool:
    """Whether these terms turn a token and its query alike, all heads as one, and no more."""
    form = lowered.form
    if not form.features <= _TURNS or form.scale != 1.0:
        return False
    if not isinstance(form.rotation, Rotate):
        return cache.rotation_signature == ()
    q_waves, k_waves = form.q_waves, form.k_waves
    if q_waves is None or k_waves is not q_waves or q_waves[0].shape[:2] != (1, 1):
        return False
    return cache.rotation_signature == signature_of(form.rotation)
