"""Tokens are written behind those that are held, and never over what a tensor shows."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from posenc import (
    Cache,
    attend,
)
from tests.support.decoding import (
    HEADS,
    qkv,
)


class TestGrowingBuffer:
    """Tokens are written behind those that are held, and never over what a tensor shows."""

    def steps(self, cache: Cache, count: int = 3) -> list[Tensor]:
        q, k, v = qkv()
        with torch.no_grad():
            return [
                attend(*(x[:, :, at : at + 1] for x in (q, k, v)), causal=True, cache=cache)
                for at in range(count)
            ]

    def test_a_step_copies_nothing_that_is_held(self) -> None:
        cache = Cache()
        self.steps(cache)
        k = cache.k
        self.steps(cache, 1)
        assert cache.k.data_ptr() == k.data_ptr()
        assert (k.shape[2], cache.k.shape[2]) == (3, 4)

    def test_the_length_bounds_it(self) -> None:
        cache = Cache(length=5)
        self.steps(cache)
        assert cache.buffers[0].memory.shape[2] == 5

    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
    def test_copies_go_on_apart(self, duplicate: Callable[[Cache], Cache]) -> None:
        cache, (_, k, v) = Cache(), qkv()
        self.steps(cache)
        other = duplicate(cache)
        for one, at in ((cache, 3), (other, 4)):
            with torch.no_grad():
                new = (x[:, :, at : at + 1] for x in (k, v))
                attend(k[:, :1, at : at + 1].repeat(1, HEADS, 1, 1), *new, causal=True, cache=one)
        for one, at in ((cache, 3), (other, 4)):
            assert torch.equal(one.k, k[:, :, [0, 1, 2, at]])
            assert torch.equal(one.v, v[:, :, [0, 1, 2, at]])

    def test_a_cache_that_was_put_back_overwrites_nothing(self) -> None:
        cache, (q, k, v) = Cache(), qkv()
        self.steps(cache)
        before, state = cache.k.clone(), cache.saved()
        self.steps(cache, 2)
        later, shown = cache.k, cache.k.clone()
        cache.restore(state)
        with torch.no_grad():
            attend(*(x[:, :, -1:] for x in (q, k, v)), causal=True, cache=cache)
        assert torch.equal(cache.k[:, :, :3], before)
        assert torch.equal(later, shown)

    def test_what_a_gradient_needs_is_not_overwritten(self) -> None:
        cache, (q, k, v) = Cache(), qkv()
        self.steps(cache)
        q = q[:, :, -1:].clone().requires_grad_()
        out = attend(q, k[:, :, 3:4], v[:, :, 3:4], causal=True, cache=cache)
        expected = torch.autograd.grad(
            attend(q, k[:, :, :4], v[:, :, :4], causal=True).square().sum(), q
        )
        self.steps(cache, 2)
        torch.testing.assert_close(torch.autograd.grad(out.square().sum(), q), expected)

    def test_inference_mode_may_begin_and_end(self) -> None:
        cache, (q, k, v) = Cache(), qkv()
        got = []
        for at, mode in enumerate((True, True, False, True, False, False)):
            with torch.inference_mode(mode), torch.no_grad():
                new = (x[:, :, at : at + 1] for x in (q, k, v))
                got.append(attend(*new, causal=True, cache=cache))
        whole = attend(q, k, v, causal=True)[:, :, : len(got)]
        torch.testing.assert_close(torch.cat(got, dim=2), whole)
