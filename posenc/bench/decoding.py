"""Cases: one new token against a long cache."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

import posenc as pe
from posenc.bench import attention_peers as peers
from posenc.bench.attention_inputs import AttentionInputs, AttentionSetting, no_position, ours
from posenc.bench.case import Call, Case, Goal, Unavailable
from posenc.native import query
from posenc.torch_modes import arithmetic

FLOOR = "no position"
DTYPES = ("float32", "bfloat16")
ROWS = {
    512: "decode step, 512 keys, any bias",
    4096: "decode step, 4k cache, any bias",
    32_768: "decode step, 32k cache, any bias",
}
# One for each way in which a step reads its bias: KERPLE and Sandwich are read as a learned table.
BIASES = ("alibi", "t5", "learned table", "forget_gate", "shaw")
# At one length and in one dtype: a network of distances, and counts of gates.
OTHERS = ("fire", "cope")
# What the peer cannot add as a bias.
NO_BIAS = ("shaw", "cope")
LENGTHS = (4096, 32_768)
CACHE_ROW = "8 decode steps through a growing cache"
STATIC_ROW = "8 decode steps through a static cache"
JOINED, KERNEL = "torch.cat and SDPA", "the kernel, its mask made before"
HEADS = ((8, 8), (32, 8))
STEPS = 8


def cases() -> Iterator[Case]:
    """Single steps over keys that are there, and steps through a cache as a model takes them."""
    for keys, row in ROWS.items():
        for heads, kv_heads in HEADS:
            for dtype in DTYPES:
                more = OTHERS if (keys, heads, dtype) == (4096, 8, "float32") else ()
                for encoding in (*BIASES, *more):
                    setting = AttentionSetting(encoding, keys, dtype, training=False, heads=heads,
                                   kv_heads=kv_heads, queries=1)  # fmt: skip
                    line = f"{heads} heads on {kv_heads}, {dtype}"
                    runs = {FLOOR: no_position, "posenc": ours()}
                    if encoding not in NO_BIAS:
                        runs |= {"transformers": peers.transformers_sdpa, KERNEL: kernel_alone}
                    least = None if encoding in NO_BIAS else KERNEL
                    goals = (Goal(row, line, "posenc", FLOOR, 1.1, least=least),)
                    yield Case(
                        f"decode step, {setting}", "decode", setting, runs, FLOOR, goals=goals
                    )
    for keys in LENGTHS:
        cache = CacheSetting(keys)
        runs = {
            FLOOR: appended,
            "posenc rotary": stepped(lambda setting: pe.Rotary(setting.dim)),
            "posenc alibi": stepped(lambda setting: pe.ALiBi(setting.heads)),
            "posenc t5": stepped(lambda setting: pe.T5Bias(setting.heads)),
        }
        growing = {
            JOINED: joined,
            "posenc none": grown(lambda _: None),
            "posenc rotary": grown(lambda setting: pe.Rotary(setting.dim)),
            "posenc rotary, raw": grown(
                lambda setting: pe.Rotary(setting.dim), lambda _: pe.Cache("raw")
            ),
            "posenc alibi": grown(lambda setting: pe.ALiBi(setting.heads)),
            "posenc t5": grown(lambda setting: pe.T5Bias(setting.heads)),
            "posenc rolling": grown(
                lambda setting: [
                    pe.Rotary(setting.dim),
                    pe.SlidingWindow(setting.keys // 4),
                    pe.Sinks(4),
                ],
                lambda setting: pe.RollingCache(setting.keys // 4, 4),
            ),
        }
        goals = tuple(
            Goal(CACHE_ROW, f"{keys} keys, {name.removeprefix('posenc ')}", name, JOINED, 1.2)
            for name in growing
            if name != JOINED
        )
        name = f"{STEPS} decode steps through a cache, {cache}"
        yield Case(name, "decode", cache, growing, JOINED, goals=goals)
        goals = tuple(
            Goal(STATIC_ROW, f"{keys} keys, {name.removeprefix('posenc ')}", name, FLOOR, 1.0)
            for name in runs
            if name != FLOOR
        )
        name = f"{STEPS} decode steps through a static cache, {cache}"
        yield Case(name, "decode", cache, runs, FLOOR, goals=goals)


def kernel_alone(inputs: AttentionInputs) -> Call:
    """One query's kernel, called straight with the bias that peers get ready made."""
    bias, scale = peers.bias_of(inputs), inputs.setting.dim**-0.5
    # Numbers that are added to scores have the dtype of the arithmetic.
    mask = bias.to(arithmetic(inputs.q))
    if not query.suits(inputs.q):
        raise Unavailable("there are no C kernels here")
    return inputs.run(lambda: query.attend(inputs.q, inputs.k, inputs.v, scale, mask))


@dataclass(frozen=True)
class CacheSetting:
    """A cache that holds `keys` tokens, and room for a few more."""

    keys: int
    heads: int = 8
    dim: int = 64

    def inputs(self) -> "CacheInputs":
        torch.manual_seed(0)
        k, v = torch.randn(2, 1, self.heads, self.keys, self.dim).unbind()
        q, *new = torch.randn(3, 1, self.heads, 1, self.dim).unbind()
        return CacheInputs(self, k, v, q, new[0], new[1])

    def small(self) -> Self:
        return replace(self, keys=min(self.keys, 48))

    def __str__(self) -> str:
        return f"{self.keys} keys, float32"


@dataclass(frozen=True)
class CacheInputs:
    setting: CacheSetting
    k: Tensor
    v: Tensor
    q: Tensor
    new_k: Tensor
    new_v: Tensor


def appended(inputs: CacheInputs) -> Call:
    """Writing into buffers, and SDPA over what is written."""
    start = inputs.setting.keys
    k, v = (F.pad(x, (0, 0, 0, STEPS)) for x in (inputs.k, inputs.v))

    @torch.no_grad()
    def call() -> None:
        for end in range(start + 1, start + STEPS + 1):
            k[:, :, end - 1 : end], v[:, :, end - 1 : end] = inputs.new_k, inputs.new_v
            F.scaled_dot_product_attention(inputs.q, k[:, :, :end], v[:, :, :end])

    return call


def stepped(encoding: Callable[[CacheSetting], Any]) -> Callable[[CacheInputs], Call]:
    """The same through a StaticCache, taken back before it goes on; every step lowers."""

    def make(inputs: CacheInputs) -> Call:
        chosen, start = encoding(inputs.setting), inputs.setting.keys
        cache = pe.StaticCache(start + STEPS)
        with torch.no_grad():
            # One query stands for the prompt's, which are not measured.
            pe.attend(inputs.q, inputs.k, inputs.v, chosen, causal=True, cache=cache)

        @torch.no_grad()
        def call() -> None:
            for _ in range(STEPS):
                pe.attend(inputs.q, inputs.new_k, inputs.new_v, chosen, causal=True, cache=cache)
            cache.truncate(start)

        return call

    return make


def joined(inputs: CacheInputs) -> Call:
    """What a decoder without position or cache does, from the same start each time."""

    @torch.no_grad()
    def call() -> None:
        k, v = inputs.k, inputs.v
        for _ in range(STEPS):
            k, v = torch.cat((k, inputs.new_k), dim=2), torch.cat((v, inputs.new_v), dim=2)
            F.scaled_dot_product_attention(inputs.q, k, v)

    return call


def grown(
    encoding: Callable[[CacheSetting], Any],
    make_cache: Callable[[CacheSetting], pe.Cache] = lambda _: pe.Cache(),
) -> Callable[[CacheInputs], Call]:
    """The same through a Cache, which goes on growing from call to call."""

    def make(inputs: CacheInputs) -> Call:
        chosen, cache = encoding(inputs.setting), make_cache(inputs.setting)
        with torch.no_grad():
            # One query stands for the prompt's, which are not measured.
            pe.attend(inputs.q, inputs.k, inputs.v, chosen, causal=True, cache=cache)

        @torch.no_grad()
        def call() -> None:
            for _ in range(STEPS):
                pe.attend(inputs.q, inputs.new_k, inputs.new_v, chosen, causal=True, cache=cache)

        return call

    return make
