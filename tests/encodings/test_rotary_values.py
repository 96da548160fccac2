"""Values turned, and their sums turned back: one tensor for keys and values."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc import terms as t
from posenc.backends import BACKENDS
from tests.support.oracles import drawing
from tests.support.term_examples import TURNS, VALUE_TURNS, Sizes, inputs

SETTINGS = {"layout": "interleaved", "rotary_dim": 8, "start": -8}
SHARED = [pe.Rotary(16, **SETTINGS), pe.RotaryValues(16, **SETTINGS)]
SQUARE = Sizes(q_len=7)


@pytest.mark.parametrize("name", VALUE_TURNS)
@pytest.mark.parametrize("backend", sorted(set(BACKENDS) - {"triton", "reference"}))
def test_every_backend_takes_it(backend: str, name: str) -> None:
    """Beside what the backend adds and turns itself, with the log of the sum."""
    draw = drawing(1)
    q, k, v = inputs(SQUARE, draw)
    terms = [TURNS["rotate half"](SQUARE, draw), VALUE_TURNS[name](SQUARE, draw), t.Slope(draw(6))]
    given: dict[str, Any] = {"causal": True, "return_lse": backend != "sdpa"}
    expected = pe.attend(q, k, v, terms, backend="reference", **given)
    with torch.no_grad():
        out = pe.attend(q, k, v, terms, backend=backend, **given)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    expected = expected if isinstance(expected, torch.Tensor) else expected[0]
    assert not torch.allclose(expected, pe.attend(q, k, v, terms[::2], causal=True), atol=0.1)


def test_vectors_of_the_distance_are_not_turned_back() -> None:
    """A ValueTable adds what is already of the distance: only the equation has both."""
    draw = drawing(2)
    q, k, v = inputs(SQUARE, draw)
    turn, table = (
        VALUE_TURNS["rotate values"](SQUARE, draw),
        t.ValueTable(draw(1, 5, 4), 2, None, True),
    )
    both, turned, added, neither = (
        pe.attend(q, k, v, terms, causal=True) for terms in ([turn, table], turn, table, None)
    )
    torch.testing.assert_close(both, turned + added - neither, rtol=0, atol=1e-12)
    for backend in set(BACKENDS) - {"reference", "triton"}:
        with pytest.raises(pe.UnsupportedError, match="cannot compute this"):
            pe.attend(q, k, v, [turn, table], causal=True, backend=backend)


@pytest.mark.parametrize("policy", ["rotated", "raw"])
@pytest.mark.parametrize("cache", [pe.Cache, pe.LatentCache])
def test_one_tensor_for_keys_and_values_is_cached_once(cache: type, policy: str) -> None:
    draw = drawing(3)
    q, kv = draw(2, 4, 9, 16), draw(2, 1, 9, 16)
    whole, held = pe.attend(q, kv, kv, SHARED, causal=True), cache(policy)
    cuts = slice(0, 5), slice(5, 6), slice(6, 9)
    parts = [
        pe.attend(q[:, :, at], kv[:, :, at], kv[:, :, at], SHARED, causal=True, cache=held)
        for at in cuts
    ]
    torch.testing.assert_close(torch.cat(parts, dim=2), whole, rtol=0, atol=1e-12)
    assert torch.equal(held.k, held.v)
    assert (held.k.data_ptr() == held.v.data_ptr()) == (cache is pe.LatentCache)


def test_slots_are_turned_by_angles_of_their_own() -> None:
    """Terms that were lowered for all slots of a static cache."""
    draw = drawing(6)
    q, kv = draw(1, 4, 9, 16), draw(1, 1, 9, 16)
    cache, outs = pe.StaticCache(12), []
    for at in (slice(0, 5), slice(5, 6), slice(6, 9)):
        placed = cache.place(at.stop - at.start, causal=True)
        lowered = pe.lower(SHARED, placed, dtype=q.dtype)
        outs.append(pe.attend(q[:, :, at], kv[:, :, at], kv[:, :, at], lowered, cache=cache))
    whole = pe.attend(q, kv, kv, SHARED, causal=True)
    torch.testing.assert_close(torch.cat(outs, dim=2), whole, rtol=0, atol=1e-12)


def test_a_cache_is_not_asked_for_other_values() -> None:
    q = drawing(4)(1, 1, 5, 16)
    cache = pe.Cache()
    pe.attend(q, q, q, SHARED, causal=True, cache=cache)
    with pytest.raises(pe.CacheError, match="turned as"):
        pe.attend(q[:, :, :1], q[:, :, :1], q[:, :, :1], SHARED[0], causal=True, cache=cache)


def test_parts_of_the_keys_are_merged() -> None:
    draw = drawing(5)
    q, kv = draw(1, 4, 9, 16), draw(1, 1, 9, 16)
    at = pe.Positions.build(9).ordered()
    parts = [
        pe.attend(
            q,
            kv[:, :, part],
            kv[:, :, part],
            SHARED,
            positions=pe.Positions(at.queries, at.keys[part]),
            return_lse=True,
        )
        for part in (slice(0, 4), slice(4, 9))
    ]
    out, _ = pe.merge(*zip(*parts, strict=True))
    torch.testing.assert_close(out, pe.attend(q, kv, kv, SHARED), rtol=0, atol=1e-12)


def test_values_are_turned_once() -> None:
    q = torch.zeros(1, 1, 3, 16)
    with pytest.raises(pe.UnsupportedError, match="values can be rotated once"):
        pe.attend(q, q, q, [pe.RotaryValues(16), pe.RotaryValues(16)])
    two = t.RotateValues(*[torch.zeros(1, 2, 3, 4).double()] * 2, "half")
    for backend in ("reference", "native"):
        with pytest.raises(pe.ShapeError, match=r"q_angle was made for 2 heads, but q has 4"):
            pe.attend(q.expand(1, 4, 3, 16), q, q, two, backend=backend)
    with pytest.raises(pe.UnsupportedError, match="RotateValues reads"):
        pe.LatentAttention(
            16, 1, pe.RotaryValues(16, start=-8), content_dim=8, rope_dim=8, latent_dim=4
        )(torch.zeros(1, 3, 16))
