"""Cases: one new token against a long cache."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

import posenc as pe
from posenc.bench import attention_peers as peers
from posenc.bench.attending import Attending, no_position, ours
from posenc.bench.case import Call, Case, Goal

FLOOR = "no position"
DTYPES = ("float32", "bfloat16")
ROW = "decode step, 32k cache, any bias"
HEADS = ((8, 8), (32, 8))
STEPS = 8


def cases() -> Iterator[Case]:
    """Row eleven, and steps through a cache as a model takes them."""
    for keys in (4096, 32_768):
        for heads, kv_heads in HEADS:
            for dtype in DTYPES:
                for encoding in ("alibi", "t5", "kerple", "learned table"):
                    at = Attending(encoding, keys, dtype, training=False, heads=heads,
                                   kv_heads=kv_heads, queries=1)  # fmt: skip
                    line = f"{heads} heads on {kv_heads}, {dtype}"
                    goals = (Goal(ROW, line, "posenc", FLOOR, 1.0),) if keys == 32_768 else ()
                    runs = {
                        FLOOR: no_position,
                        "posenc": ours(),
                        "transformers": peers.transformers_sdpa,
                        "x-transformers": peers.x_transformers,
                    }
                    yield Case(f"decode step, {at}", "decode", at, runs, FLOOR, goals=goals)
    for keys in (4096, 32_768):
        held = Holding(keys)
        runs = {
            FLOOR: appended,
            "posenc rotary": stepped(lambda at: pe.Rotary(at.dim)),
            "posenc alibi": stepped(lambda at: pe.ALiBi(at.heads)),
            "posenc t5": stepped(lambda at: pe.T5Bias(at.heads)),
        }
        yield Case(f"{STEPS} decode steps through a static cache, {held}", "decode", held, runs,
                   FLOOR)  # fmt: skip


@dataclass(frozen=True)
class Holding:
    """A cache that holds `keys` tokens, and room for a few more."""

    keys: int
    heads: int = 8
    dim: int = 64

    def inputs(self) -> "Held":
        torch.manual_seed(0)
        k, v = torch.randn(2, 1, self.heads, self.keys, self.dim).unbind()
        q, *new = torch.randn(3, 1, self.heads, 1, self.dim).unbind()
        return Held(self, k, v, q, new[0], new[1])

    def small(self) -> Self:
        return replace(self, keys=min(self.keys, 48))

    def __str__(self) -> str:
        return f"{self.keys} keys, float32"


@dataclass(frozen=True)
class Held:
    setting: Holding
    k: Tensor
    v: Tensor
    q: Tensor
    new_k: Tensor
    new_v: Tensor


def appended(at: Held) -> Call:
    """Writing into buffers, and SDPA over what is written."""
    start = at.setting.keys
    k, v = (F.pad(x, (0, 0, 0, STEPS)) for x in (at.k, at.v))

    @torch.no_grad()
    def call() -> None:
        for end in range(start + 1, start + STEPS + 1):
            k[:, :, end - 1 : end], v[:, :, end - 1 : end] = at.new_k, at.new_v
            F.scaled_dot_product_attention(at.q, k[:, :, :end], v[:, :, :end])

    return call


def stepped(encoding: Callable[[Holding], Any]) -> Callable[[Held], Call]:
    """The same through a StaticCache, taken back before it goes on; every step lowers."""

    def make(at: Held) -> Call:
        chosen, start = encoding(at.setting), at.setting.keys
        cache = pe.StaticCache(start + STEPS)
        with torch.no_grad():
            # One query stands for the prompt's, which are not measured.
            pe.attend(at.q, at.k, at.v, chosen, causal=True, cache=cache)

        @torch.no_grad()
        def call() -> None:
            for _ in range(STEPS):
                pe.attend(at.q, at.new_k, at.new_v, chosen, causal=True, cache=cache)
            cache.truncate(start)

        return call

    return make
