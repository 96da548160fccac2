"""Tokens that come one by one, through a cache."""

from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import attention

DIM, HEADS = 16, 4


class Steps:
    """Tokens that come one by one, after a prompt.

    padding  how many of the prompt's tokens are padding in each row, below 0 behind the others;
             None: nobody tells
    """

    def __init__(
        self,
        encoding: Any,
        cache: pe.Cache,
        dtype: torch.dtype = torch.float32,
        shared: int = 1,
        padding: tuple[int, int] | None = None,
    ) -> None:
        self.encoding, self.cache, self.dtype = encoding, cache, dtype
        self.padding = padding
        self.heads, self.generator = (HEADS, HEADS // shared), torch.Generator().manual_seed(0)

    def tokens(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        heads, key_heads = self.heads
        shapes = [(2, h, count, DIM) for h in (heads, key_heads, key_heads)]
        q, k, v = (torch.randn(shape, generator=self.generator) for shape in shapes)
        return q.to(self.dtype), k.to(self.dtype), v.to(self.dtype)

    def prompt(self, count: int = 5) -> None:
        where = {}
        if self.padding is not None:
            told, slots = torch.tensor(self.padding)[:, None], torch.arange(count)
            mask = (slots >= told) & (slots < count + told.clamp(max=0))
            where["positions"] = pe.Positions.build(attention_mask=mask, causal=True)
        attention.attend(*self.tokens(count), self.encoding, causal=True, cache=self.cache, **where)

    def step(self, **more: Any) -> Tensor:
        return attention.attend(*self.tokens(1), self.encoding, cache=self.cache, **more)

    def run(self, count: int) -> list[Tensor]:
        self.prompt()
        return [self.step() for _ in range(count)]


def same(one: Steps, other: Steps) -> None:
    """Whether two caches hold the same."""
    assert torch.equal(one.cache.k, other.cache.k)
    assert torch.equal(one.cache.v, other.cache.v)
    a, b = one.cache.placed, other.cache.placed
    for x, y in ((a.queries, b.queries), (a.keys, b.keys)):
        assert torch.equal(x.position, y.position)
        for told, known in ((x.order, y.order), (x.valid, y.valid)):
            assert told is known is None or torch.equal(told, known)
    assert (a.causal, a.extent, a.unit_step) == (b.causal, b.extent, b.unit_step)
    if isinstance(one.cache, pe.StaticCache):
        assert torch.equal(one.cache.position, other.cache.position)
    assert one.cache.rotation_signature == other.cache.rotation_signature


def recorded(monkeypatch: pytest.MonkeyPatch, short_way: str) -> list[bool]:
    """Whether each call that attend offers to this short way, by name, is taken by it."""
    taken: list[bool] = []
    real = getattr(attention, short_way)

    def asked(*given: Any) -> Tensor | None:
        out = real(*given)
        taken.append(out is not None)
        return out

    monkeypatch.setattr(attention, short_way, asked)
    return taken
