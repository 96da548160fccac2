"""RoPE++: what an imaginary head makes of the product, and the keys that it leaves as they are."""

import math

import pytest
import torch

import posenc as pe
from posenc import Cache, RoPEPlusPlus, Rotary, SettingError
from tests.support.oracles import drawing


def test_doubled_queries_read_the_cache_of_rope() -> None:
    """RoPE++_EC: twice the heads, and not a key more, nor another one."""
    draw = drawing()
    q, k, v = draw(1, 2, 6, 16), draw(1, 2, 6, 16), draw(1, 2, 6, 16)
    caches = Cache(), Cache()
    theirs = pe.attend(q, k, v, Rotary(16), causal=True, cache=caches[0])
    twice = q.repeat_interleave(2, dim=1)
    ours = pe.attend(twice, k, v, RoPEPlusPlus(16, heads=4), causal=True, cache=caches[1])
    torch.testing.assert_close(ours[:, ::2], theirs)
    torch.testing.assert_close(caches[1].k, caches[0].k)


def test_the_imaginary_part_is_odd_in_the_distance() -> None:
    """Of one vector everywhere: 0 at its own place, and signs that tell past from future."""
    x = drawing()(1, 1, 1, 16).expand(1, 1, 9, 16)
    s = pe.scores(x, x, RoPEPlusPlus(16, heads=1, imaginary=(0,)))[0, 0]
    torch.testing.assert_close(s, -s.mT)
    one = pe.scores(x[..., :2], x[..., :2], RoPEPlusPlus(2, heads=1, imaginary=(0,)), scale=1.0)
    expected = x[0, 0, 0, :2].square().sum() * math.sin(1.0)
    torch.testing.assert_close(one[0, 0, 1, 0], expected)


@pytest.mark.parametrize("imaginary", [(4,), (-1,), (1, 1)])
def test_heads_that_are_not_there_are_refused(imaginary: tuple[int, ...]) -> None:
    with pytest.raises(SettingError, match="give each head once, 0 to 3"):
        RoPEPlusPlus(16, heads=4, imaginary=imaginary)
