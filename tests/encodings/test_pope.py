"""PoPE: by hand, what content cannot do, its phases' range, raw keys, and refused sizes."""

import math

import pytest
import torch

import posenc as pe
from posenc import Cache, CacheError, PoPE, SettingError, ShapeError
from posenc.terms import Polar
from tests.support.oracles import drawing


def test_by_hand() -> None:
    """log 2 is the magnitude of 0; frequencies are 1 and 1/10, phases 0 and a quarter turn back."""
    encoding = PoPE(2, heads=1, base=100.0).double()
    with torch.no_grad():
        encoding.delta.copy_(torch.tensor([[0.0, -math.pi / 2]]))
    q = k = torch.zeros(1, 1, 3, 2, dtype=torch.float64)
    ahead = torch.arange(3.0).double() - torch.arange(3.0).double()[:, None]
    waves = ahead.cos() + (0.1 * ahead - math.pi / 2).cos()
    expected = math.log(2) ** 2 * waves * 2**-0.5
    torch.testing.assert_close(pe.scores(q, k, encoding)[0, 0], expected, rtol=1e-6, atol=1e-7)


def test_content_scales_a_wave_and_cannot_move_it() -> None:
    """Of one dimension, any query and key have the same curve of distance but for its height."""
    encoding, draw = PoPE(1, heads=1, init="uniform").double(), drawing()
    curves = []
    for _ in range(2):
        q, k = draw(1, 1, 1, 1), draw(1, 1, 1, 1)
        s = pe.scores(q.expand(1, 1, 9, 1), k.expand(1, 1, 9, 1), encoding)[0, 0]
        curves.append(s / s[0, 0])
    torch.testing.assert_close(*curves)


def test_a_large_magnitude_is_exact_in_float64() -> None:
    """torch's softplus gives up a part of 2e-9 beyond 20."""
    encoding = PoPE(1, heads=1).double()
    q, k = torch.full((1, 1, 1, 1), 21.0).double(), torch.zeros(1, 1, 1, 1).double()
    expected = math.log1p(math.exp(21.0)) * math.log(2)
    for found in (pe.scores(q, k, encoding), pe.attend(q, k, k, encoding, return_lse=True)[1]):
        assert abs(found.item() / expected - 1) < 1e-14


def test_phases_are_held_in_their_range_and_learn_within_it() -> None:
    encoding, draw = PoPE(3, heads=2), drawing()
    assert (encoding.delta == 0).all()
    q, k = draw(1, 2, 5, 3).float(), draw(1, 2, 5, 3).float()
    at_zero = pe.scores(q, k, encoding)
    (gradient,) = torch.autograd.grad(at_zero.sum(), encoding.delta)
    assert (gradient != 0).all()
    with torch.no_grad():
        encoding.delta.fill_(0.5)
    beyond = pe.scores(q, k, encoding)
    torch.testing.assert_close(beyond, at_zero)
    (gradient,) = torch.autograd.grad(beyond.sum(), encoding.delta)
    assert (gradient == 0).all()
    started = PoPE(64, heads=8, init="uniform").delta
    assert -2 * math.pi <= started.min() < -6
    assert -0.3 < started.max() <= 0
    assert encoding.bfloat16().delta.dtype == torch.float32


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_every_query_head_has_its_phase_where_heads_share_keys(key_heads: int) -> None:
    encoding, draw = PoPE(6, heads=4, init="uniform").double(), drawing()
    q, k, v = draw(2, 4, 9, 6), draw(2, key_heads, 9, 6), draw(2, key_heads, 9, 5)
    repeated = [x.repeat_interleave(4 // key_heads, dim=1) for x in (k, v)]
    expected = pe.attend(q, *repeated, encoding, causal=True, backend="reference")
    for backend in ("auto", "native", "sdpa", "blocked"):
        found = pe.attend(q, k, v, encoding, causal=True, backend=backend)
        torch.testing.assert_close(found, expected)


def test_raw_keys_are_cached_as_wide_as_they_come() -> None:
    encoding, draw = PoPE(6, heads=2, init="uniform").double(), drawing()
    q, k, v = (draw(1, 2, 9, 6) for _ in range(3))
    cache, steps = Cache("raw"), []
    for i in range(9):
        one = (x[:, :, i : i + 1] for x in (q, k, v))
        steps.append(pe.attend(*one, encoding, causal=True, cache=cache))
    whole = pe.attend(q, k, v, encoding, causal=True)
    torch.testing.assert_close(torch.cat(steps, dim=2), whole)
    assert cache.k is not None
    assert cache.k.shape == k.shape
    with pytest.raises(CacheError, match=r'Polar reads keys that are not turned.*"raw"'):
        pe.attend(q, k, v, encoding, causal=True, cache=Cache())


def test_vectors_and_counts_read_queries_as_given() -> None:
    """A list with Shaw or CoPE adds what these add to scores of theirs, of q without magnitudes."""
    draw, pope = drawing(), PoPE(6, heads=2, init="uniform").double()
    q, k, v = (draw(1, 2, 9, 6) for _ in range(3))
    shaw = pe.Shaw(6, clip=3, values=False).double()
    bare = pe.scores(q, k, causal=True)
    added = pe.scores(q, k, shaw, causal=True).nan_to_num(0, 0, 0) - bare.nan_to_num(0, 0, 0)
    both = pe.scores(q, k, [pope, shaw], causal=True)
    alone = pe.scores(q, k, pope, causal=True)
    torch.testing.assert_close(both, alone + added)
    cope = pe.CoPE(6, max_position=4, heads=2).double()
    for beside in (shaw, cope):
        parts = [pope, beside]
        expected = pe.attend(q, k, v, parts, causal=True, backend="reference")
        for backend in ("auto", "blocked"):
            found = pe.attend(q, k, v, parts, causal=True, backend=backend)
            torch.testing.assert_close(found, expected)


def test_what_does_not_fit_is_refused() -> None:
    for settings in ({"dim": 0}, {"heads": 0}, {"base": 0.0}):
        with pytest.raises(SettingError, match=r"PoPE"):
            PoPE(**{"dim": 4, "heads": 2, **settings})
    q = torch.randn(1, 2, 3, 4)
    angles = torch.zeros(1, 1, 3, 3).double()
    for backend in ("reference", "sdpa", "blocked"):
        with pytest.raises(ShapeError, match=r"q_angle was made for 3 dimensions, but q has 4"):
            pe.attend(q, q, q, Polar(angles, angles), backend=backend)
    with pytest.raises(ShapeError, match="made for 3 heads"):
        pe.attend(q, q, q, Polar(torch.zeros(1, 3, 3, 4).double(), torch.zeros(1, 1, 3, 4)))
