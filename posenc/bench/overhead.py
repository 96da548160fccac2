"""Cases: what a call costs that computes next to nothing, in microseconds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

import posenc as pe
from posenc.bench.bare_tables import BARE, RAW
from posenc.bench.case import Call, Case, Goal, Unavailable
from posenc.native.rotary_packing import packed, run_packed

NOTHING, SDPA, TURN = "nothing", "SDPA", "the turning kernel and SDPA"
ATTEND_ROW = "attend of lowered terms, tiny tensors, above SDPA's own call"
STEP_ROW = "a cached rotary step: turn, append, attend"
LOWER_ROW = "lower for one new token"
HEADS, DIM, KEYS = 4, 16, 64
# One token beside as many keys as a short prompt has.
TOKENS = {"1 query": 1, "16 queries": 16}
ENCODINGS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "rotary": lambda: pe.Rotary(DIM),
    "xpos": lambda: pe.XPos(DIM),
    "alibi": lambda: pe.ALiBi(HEADS),
    "t5": lambda: pe.T5Bias(HEADS),
    "kerple": lambda: pe.KERPLE(HEADS),
    "sandwich": lambda: pe.Sandwich(HEADS),
    "shaw": lambda: pe.Shaw(DIM, clip=16),
    "window": lambda: pe.SlidingWindow(32),
}
LOWERED = {RAW if name == "xpos" else name: make for name, make in ENCODINGS.items()}


@dataclass(frozen=True)
class TinySetting:
    """A few tokens of a few narrow heads."""

    queries: int
    keys: int = KEYS

    def inputs(self) -> "TinyInputs":
        torch.manual_seed(0)
        q = torch.randn(1, HEADS, self.queries, DIM)
        k, v = torch.randn(2, 1, HEADS, self.keys, DIM).unbind()
        return TinyInputs(self, q, k, v)

    def small(self) -> Self:
        return replace(self)


@dataclass(frozen=True)
class TinyInputs:
    setting: TinySetting
    q: Tensor
    k: Tensor
    v: Tensor

    @property
    def positions(self) -> pe.Positions:
        return pe.Positions.build(self.setting.queries, self.setting.keys, causal=True)


def cases() -> Iterator[Case]:
    for shown, queries in TOKENS.items():
        runs = {SDPA: sdpa} | {
            f"posenc {name}": attending(make) for name, make in ENCODINGS.items()
        }
        least = dict.fromkeys(("rotary", "xpos"), TURN)
        goals = _goals(runs, ATTEND_ROW, shown, SDPA, 20.0, least)
        runs[TURN] = turned
        yield _case("attend", f"{shown} on {KEYS} keys", TinySetting(queries), runs, SDPA, goals)
    steps = {
        "posenc rotary": stepping(),
        "posenc rotary, padded on the left": stepping(slice(8)),
        "posenc rotary, padded on the right": stepping(slice(-8, None)),
        "transformers": stepping_transformers,
    }
    runs: dict[str, Callable[[TinyInputs], Call]] = {NOTHING: nothing, **steps}
    goal = Goal(STEP_ROW, f"{KEYS} keys", "posenc rotary", NOTHING, 60.0, ("transformers",))
    yield _case("cached rotary step", f"{KEYS} keys", TinySetting(1), runs, NOTHING, (goal,))
    runs = {NOTHING: nothing}
    runs |= {f"posenc {name}": lowering(make, name == RAW) for name, make in LOWERED.items()}
    bare = {name: f"{name}, bare torch calls" for name in BARE}
    goals = _goals(runs, LOWER_ROW, f"{KEYS} keys", NOTHING, 30.0, bare)
    runs |= {shown: tabling(name) for name, shown in bare.items()}
    yield _case("lower", f"1 query on {KEYS} keys", TinySetting(1), runs, NOTHING, goals)


def _goals(
    runs: dict[str, Callable[[TinyInputs], Call]],
    row: str,
    line: str,
    base: str,
    reach: float,
    least: dict[str, str],
) -> tuple[Goal, ...]:
    return tuple(
        Goal(row, line, name, base, reach, (), least.get(name.removeprefix("posenc ")))
        for name in runs
        if name != base
    )


def _case(
    what: str,
    shown: str,
    setting: TinySetting,
    runs: dict[str, Callable[[TinyInputs], Call]],
    floor: str,
    goals: tuple[Goal, ...],
) -> Case:
    return Case(f"overhead of {what}, {shown}", "overhead", setting, runs, floor, "overhead", goals)


def nothing(_: TinyInputs) -> Call:
    @torch.no_grad()
    def call() -> None:
        pass

    return call


def sdpa(inputs: TinyInputs) -> Call:
    @torch.no_grad()
    def call() -> Tensor:
        return F.scaled_dot_product_attention(inputs.q, inputs.k, inputs.v)

    return call


def turned(inputs: TinyInputs) -> Call:
    """The kernel that turns q and k, its call packed before, and SDPA."""
    x = inputs.q, inputs.k
    form = pe.lower(pe.Rotary(DIM), inputs.positions).form
    waves = form.waves(torch.float32)
    cos, sin = zip(*(each for each in waves if each is not None), strict=True)
    call_kernel = packed(x, [torch.empty_like(one) for one in x], cos, sin, False, 0, False)
    if call_kernel is None:
        raise Unavailable("there are no C kernels here")

    @torch.no_grad()
    def call() -> Tensor:
        q, k = out = [torch.empty_like(one) for one in x]
        run_packed(call_kernel, x, out)
        return F.scaled_dot_product_attention(q, k, inputs.v)

    return call


def tabling(name: str) -> Callable[[TinyInputs], Call]:
    """The tables that `lowering` makes of this encoding, by torch alone."""

    def make(inputs: TinyInputs) -> Call:
        return torch.no_grad()(BARE[name](LOWERED[name](), inputs.setting.keys))

    return make


def attending(encoding: Callable[[], Any]) -> Callable[[TinyInputs], Call]:
    def make(inputs: TinyInputs) -> Call:
        lowered = pe.lower(encoding(), inputs.positions)

        @torch.no_grad()
        def call() -> Tensor:
            return pe.attend(inputs.q, inputs.k, inputs.v, lowered)

        return call

    return make


def lowering(encoding: Callable[[], Any], raw: bool = False) -> Callable[[TinyInputs], Call]:
    """Terms for one query; keys are in a cache, which holds them rotated, or `raw`."""

    def make(inputs: TinyInputs) -> Call:
        chosen, positions = encoding(), inputs.positions

        @torch.no_grad()
        def call() -> pe.Lowered:
            return pe.lower(chosen, positions, keys_prerotated=not raw)

        return call

    return make


def stepping(padding: slice | None = None) -> Callable[[TinyInputs], Call]:
    """One token after the other into a growing cache, taken back now and then.

    padding  which of the tokens before are padding
    """

    def make(inputs: TinyInputs) -> Call:
        rotary, cache = pe.Rotary(DIM), pe.Cache()
        new_k, new_v = inputs.k[:, :, :1].contiguous(), inputs.v[:, :, :1].contiguous()
        real = None
        if padding is not None:
            real = torch.ones(1, KEYS, dtype=torch.bool)
            real[:, padding] = False
        positions = pe.Positions.build(KEYS, attention_mask=real, causal=True)
        with torch.no_grad():
            pe.attend(inputs.k, inputs.k, inputs.v, rotary, positions=positions, cache=cache)
        count = 0

        @torch.no_grad()
        def call() -> Tensor:
            nonlocal count
            if count == KEYS:
                cache.truncate(KEYS)
                count = 0
            count += 1
            return pe.attend(inputs.q, new_k, new_v, rotary, causal=True, cache=cache)

        return call

    return make


def stepping_transformers(inputs: TinyInputs) -> Call:
    """The same of one layer of a Llama between its projections: angles, turn, append, attend."""
    from types import SimpleNamespace

    from transformers import DynamicCache, LlamaConfig
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.models.llama import modeling_llama as llama

    config = LlamaConfig(
        hidden_size=HEADS * DIM, num_attention_heads=HEADS, num_key_value_heads=HEADS
    )
    angles, module = llama.LlamaRotaryEmbedding(config), SimpleNamespace(is_causal=True)
    cache = DynamicCache()
    cache.update(inputs.k, inputs.v, 0)
    new_k, new_v = inputs.k[:, :, :1].contiguous(), inputs.v[:, :, :1].contiguous()
    count = 0

    @torch.no_grad()
    def call() -> Tensor:
        nonlocal count
        if count == KEYS:
            cache.crop(-KEYS)
            count = 0
        cos, sin = angles(new_v, torch.tensor([[KEYS + count]]))
        count += 1
        q, k = llama.apply_rotary_pos_emb(inputs.q, new_k, cos, sin)
        keys, values = cache.update(k, new_v, 0)
        return sdpa_attention_forward(module, q, keys, values, None)[0]

    return call
