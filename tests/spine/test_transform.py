"""Matrices of tokens: every backend takes them, caches keep what they make, and what does not fit.

Terms beside them are in `test_equation`, ranks in `test_simulated`.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import terms as t
from posenc.backends import BACKENDS
from tests.support.native_kernels import close, with_gradients
from tests.support.oracles import drawing
from tests.support.term_examples import TRANSFORMS, TURNS, VALUE_TURNS, Sizes, inputs

SQUARE = Sizes(q_len=7)
EXACT = {"rtol": 0, "atol": 1e-12}
# Blocks that leave two dimensions as they are, of two heads that share a key head.
MATRICES = torch.randn(1, 1, 12, 2, 3, 3, generator=torch.Generator().manual_seed(5)).double()


def told(positions: pe.Positions, heads: int = 1) -> t.Transform:
    """A matrix for each place, which a head may multiply."""
    by_head = MATRICES * torch.arange(1, heads + 1).double().view(-1, 1, 1, 1, 1)
    q, k = (by_head[:, :, side.position.view(-1)] for side in (positions.queries, positions.keys))
    return t.Transform(q, k)


def qkv(key_heads: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    draw = drawing(3)
    return draw(2, 2, 9, 8), draw(2, key_heads, 9, 8), draw(2, key_heads, 9, 4)


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("backend", sorted(set(BACKENDS) - {"triton", "reference"}))
def test_every_backend_takes_it(backend: str, name: str) -> None:
    """Before what the backend turns and adds itself, with the log of the sum."""
    draw = drawing(1)
    q, k, v = inputs(SQUARE, draw)
    turn, slope = TURNS["rotate half"](SQUARE, draw), t.Slope(draw(6))
    terms = [slope, turn, TRANSFORMS[name](SQUARE, draw)]
    given: dict[str, Any] = {"causal": True, "return_lse": backend != "sdpa"}
    expected = pe.attend(q, k, v, terms, backend="reference", **given)
    with torch.no_grad():
        out = pe.attend(q, k, v, terms, backend=backend, **given)
    torch.testing.assert_close(out, expected, **EXACT)
    expected = expected if isinstance(expected, Tensor) else expected[0]
    assert not torch.allclose(expected, pe.attend(q, k, v, terms[:2], causal=True), atol=0.1)


def test_vectors_of_the_distance_are_read_by_what_is_multiplied() -> None:
    draw = drawing(2)
    q, k, _ = inputs(SQUARE, draw)
    matrices = TRANSFORMS["matrices per head"](SQUARE, draw)
    table = t.GatherTable(draw(6, 5, 10), 2, "q", saturates=True)
    assert isinstance(matrices, t.Transform)
    multiplied = (matrices.q[0, :, :, 0] @ q[..., None])[..., 0]
    keys = (matrices.k[0, :, :, 0] @ k.repeat_interleave(2, dim=1)[..., None])[..., 0]
    found = pe.scores(q, k, [table, matrices])
    torch.testing.assert_close(found, pe.scores(multiplied, keys, table), **EXACT)


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("policy", ["rotated", "raw"])
def test_a_cache_keeps_keys_multiplied_or_as_given(policy: str, slots: bool) -> None:
    """Terms tell of all tokens at each step, of a static cache of all its slots."""
    q, k, v = qkv()
    whole = pe.attend(q, k, v, told(pe.Positions.build(9)), causal=True)
    cache, outs = pe.StaticCache(12, policy) if slots else pe.Cache(policy), []
    for at in (slice(0, 4), slice(4, 5), slice(5, 9)):
        placed = cache.place(at.stop - at.start, causal=True)
        lowered = pe.lower(told(placed), placed, dtype=q.dtype)
        outs.append(pe.attend(*(x[:, :, at] for x in (q, k, v)), lowered, cache=cache))
    torch.testing.assert_close(torch.cat(outs, dim=2), whole, **EXACT)
    kept = (
        k
        if policy == "raw"
        else torch.cat(
            ((MATRICES[0, 0, :9] @ k[..., :6].unflatten(-1, (2, 3, 1))).flatten(-3), k[..., 6:]),
            dim=-1,
        )
    )
    torch.testing.assert_close(cache.k[:, :, :9], kept, **EXACT)


def test_what_a_cache_cannot_keep_multiplied() -> None:
    (q, k, v), at = qkv(), pe.Positions.build(9, causal=True)
    with pytest.raises(pe.CacheError, match=r'Transform reads keys that are not turned.*"raw"'):
        pe.attend(q, k, v, told(at, heads=2), causal=True, cache=pe.Cache())
    out = pe.attend(q, k, v, told(at, heads=2), causal=True, cache=pe.Cache("raw"))
    torch.testing.assert_close(out, pe.attend(q, k, v, told(at, heads=2), causal=True), **EXACT)
    cache = pe.Cache()
    pe.attend(q, k, v, told(at), causal=True, cache=cache)
    with pytest.raises(pe.CacheError, match="'matrices', 2, 3, 3"):
        pe.attend(q[:, :, :1], k[:, :, :1], v[:, :, :1], causal=True, cache=cache)


def test_matrices_that_learn_are_not_rounded_before_they_are_summed() -> None:
    """In 16 bits, as angles that learn; else what is multiplied keeps its dtype."""
    draw = drawing(4)
    q, k, v = (draw(1, 1, 256, 8).bfloat16() + 1 for _ in range(3))
    one = draw(1, 1, 1, 1, 8, 8).float()
    exact = one.double().requires_grad_()
    pe.attend(q.double(), k.double(), v.double(), t.Transform(exact, exact)).sum().backward()
    one.requires_grad_()
    pe.attend(q, k, v, t.Transform(one, one)).sum().backward()
    error = (one.grad - exact.grad).norm() / exact.grad.norm()
    assert error < 1e-4


def test_what_does_not_fit_is_refused() -> None:
    (q, k, v), one = qkv(), told(pe.Positions.build(9))
    for terms, said in (
        (told(pe.Positions.build(8)), "Transform.q was made for 8 queries, but the positions"),
        (told(pe.Positions.build(9), heads=3), "Transform.q was made for 3 heads, but q has 2"),
        (
            t.Transform(one.q.repeat(1, 1, 1, 2, 1, 1), one.k),
            "k was made for 2 entries, but Transform.q for 4",
        ),
    ):
        for backend in ("reference", "native"):
            with pytest.raises(pe.ShapeError, match=said):
                pe.attend(q, k, v, terms, backend=backend)
    with pytest.raises(pe.UnsupportedError, match="2 Transforms in one call"):
        pe.attend(q, k, v, [one, one])
    with pytest.raises(pe.UnsupportedError, match="not to one Rotate"):
        pe.rotate(q, k, one)
    with pytest.raises(pe.UnsupportedError, match=r"it lowers to \['Transform'\]"):
        pe.linear_attention(q, k, v, one)


@pytest.mark.parametrize("backend", ["sdpa", "blocked", "auto"])
def test_matrices_of_query_heads_beside_turned_values(backend: str) -> None:
    """Keys and values then have a copy for each query head, and angles are of those that came."""
    draw, s = drawing(12), Sizes()
    leaves = [x.requires_grad_() for x in inputs(s, draw)]
    terms = [
        TRANSFORMS["matrices per head"](s, draw),
        VALUE_TURNS["rotate values per row and head"](s, draw),
    ]
    found, expected = (with_gradients(name, leaves, terms) for name in (backend, "reference"))
    close(found, expected)
