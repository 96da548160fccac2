"""The short way of a step whose number tells all is taken, and gives what the long way gives."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import attention
from posenc.caches import plain_step
from posenc.encoding import Encoding

DIM, HEADS = 16, 4
TURNS = {
    "none": None,
    "rotary": pe.Rotary(DIM),
    "interleaved": pe.Rotary(DIM, layout="interleaved", rotary_dim=8),
    "gain": pe.Rotary(DIM, scaling=pe.YaRN(4.0, 64)),
}
# torch.log and the like round the last numbers of a row otherwise than those amidst.
ADDS = {
    "alibi": pe.ALiBi(HEADS),
    "alibi inside": pe.ALiBi(HEADS, inside=True),
    "t5": pe.T5Bias(HEADS),
    "kerple": pe.KERPLE(HEADS),
    "sandwich": pe.Sandwich(HEADS),
}


class Steps:
    """Tokens that come one by one, after a prompt."""

    def __init__(
        self, encoding: Any, cache: pe.Cache, dtype: torch.dtype = torch.float32, shared: int = 1
    ) -> None:
        self.encoding, self.cache, self.dtype = encoding, cache, dtype
        self.heads, self.generator = (HEADS, HEADS // shared), torch.Generator().manual_seed(0)

    def tokens(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        heads, key_heads = self.heads
        shapes = [(2, h, count, DIM) for h in (heads, key_heads, key_heads)]
        q, k, v = (torch.randn(shape, generator=self.generator) for shape in shapes)
        return q.to(self.dtype), k.to(self.dtype), v.to(self.dtype)

    def prompt(self, count: int = 5) -> None:
        attention.attend(*self.tokens(count), self.encoding, causal=True, cache=self.cache)

    def step(self, **more: Any) -> Tensor:
        return attention.attend(*self.tokens(1), self.encoding, cache=self.cache, **more)

    def run(self, count: int) -> list[Tensor]:
        self.prompt()
        return [self.step() for _ in range(count)]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether each call through a cache went the short way."""
    calls: list[bool] = []
    real = plain_step.plain_step

    def asked(*given: Any) -> Tensor | None:
        out = real(*given)
        calls.append(out is not None)
        return out

    monkeypatch.setattr(attention, "plain_step", asked)
    return calls


@pytest.fixture
def the_long_way(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(attention, "plain_step", lambda *_: None)


def same(one: Steps, other: Steps) -> None:
    """Whether two caches hold the same."""
    assert torch.equal(one.cache.k, other.cache.k)
    assert torch.equal(one.cache.v, other.cache.v)
    a, b = one.cache.placed, other.cache.placed
    assert torch.equal(a.queries.position, b.queries.position)
    assert torch.equal(a.keys.position, b.keys.position)
    assert (a.causal, a.extent, a.unit_step) == (b.causal, b.extent, b.unit_step)
    assert one.cache.rotation_signature == other.cache.rotation_signature


@pytest.mark.parametrize("shared", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", TURNS)
def test_it_gives_the_same_bits(
    name: str, dtype: torch.dtype, shared: int, taken: list[bool], the_long_way: Callable[[], None]
) -> None:
    # More of them than angles are made at once.
    count = 70
    short = Steps(TURNS[name], pe.Cache(), dtype, shared)
    actual = short.run(count)
    assert taken == [False] + count * [True]
    the_long_way()
    long = Steps(TURNS[name], pe.Cache(), dtype, shared)
    assert all(map(torch.equal, actual, long.run(count)))
    same(short, long)


@pytest.mark.parametrize("shared", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", ADDS)
def test_a_bias_is_the_same_to_a_rounding(
    name: str, dtype: torch.dtype, shared: int, taken: list[bool], the_long_way: Callable[[], None]
) -> None:
    count, encoding = 70, ADDS[name]
    short = Steps(encoding, pe.Cache(), dtype, shared)
    with torch.no_grad():
        actual = short.run(count)
        assert taken == [False] + count * [True]
        the_long_way()
        long = Steps(encoding, pe.Cache(), dtype, shared)
        expected = long.run(count)
    bound = 2 * torch.finfo(dtype).eps
    torch.testing.assert_close(actual, expected, rtol=bound, atol=bound)
    same(short, long)


@pytest.mark.parametrize("name", TURNS)
def test_terms_that_come_lowered_take_it_too(
    name: str, taken: list[bool], the_long_way: Callable[[], None]
) -> None:
    def lowered(steps: Steps) -> list[Tensor]:
        steps.prompt()
        outs = []
        for _ in range(3):
            positions = steps.cache.place(1, None, TURNS[name])
            steps.encoding = pe.lower(TURNS[name], positions, keys_prerotated=True)
            outs.append(steps.step())
        return outs

    short, long = (Steps(TURNS[name], pe.Cache()) for _ in range(2))
    actual = lowered(short)
    assert taken == [False, True, True, True]
    the_long_way()
    assert all(map(torch.equal, actual, lowered(long)))
    same(short, long)


@pytest.mark.parametrize("shared", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 254, 255, 300, 5000])
def test_it_is_taken_where_auto_takes_sdpa(
    count: int, dtype: torch.dtype, shared: int, taken: list[bool]
) -> None:
    steps = Steps(pe.Rotary(DIM), pe.Cache(), dtype, shared)
    steps.prompt(count)
    steps.step()
    q, k = torch.zeros(2, HEADS, 1, DIM).to(dtype), steps.cache.k
    told = pe.explain_backend(q, k, k, pe.Rotary(DIM), causal=True)
    assert taken == [False, "sdpa: taken" in told]


def test_angles_are_made_for_many_steps_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = plain_step.lower

    def lower(*given: Any, **more: Any) -> pe.Lowered:
        asked.append(1)
        return real(*given, **more)

    monkeypatch.setattr(plain_step, "lower", lower)
    Steps(pe.Rotary(DIM), pe.Cache()).run(130)
    assert len(asked) == 3


@pytest.mark.parametrize(
    "more",
    [
        {"backend": "sdpa"},
        {"context": pe.Context(x=torch.zeros(2, 1, DIM))},
        {"positions": torch.arange(6)},
        {"dropout": 0.5},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_is_asked_besides_goes_the_long_way(more: dict[str, Any], taken: list[bool]) -> None:
    steps = Steps(pe.Rotary(DIM), pe.Cache())
    steps.prompt()
    taken.clear()
    steps.step(**more)
    assert taken == []


OTHERS: dict[str, Callable[[], tuple[Any, pe.Cache]]] = {
    "a bias by position": lambda: (pe.FIRE(HEADS, width=8), pe.Cache()),
    "vectors": lambda: (pe.Shaw(DIM, clip=4), pe.Cache()),
    "list": lambda: ([pe.Rotary(DIM), pe.SlidingWindow(3)], pe.Cache()),
    "learned angles": lambda: (pe.LearnedRotary(DIM), pe.Cache()),
    "angles by length": lambda: (
        pe.Rotary(DIM, scaling=pe.DynamicNTK(2.0, original_length=4)),
        pe.Cache(length=16),
    ),
    "zones": lambda: (pe.ReRoPE(DIM, window=3), pe.Cache("raw")),
    "raw": lambda: (pe.Rotary(DIM), pe.Cache("raw")),
    "static": lambda: (pe.Rotary(DIM), pe.StaticCache(16)),
    "a length": lambda: (pe.Rotary(DIM), pe.Cache(length=16)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_encodings_and_caches_go_the_long_way(name: str, taken: list[bool]) -> None:
    with torch.no_grad():
        Steps(*OTHERS[name]()).run(2)
    assert taken == 3 * [False]


class TestWhatChangesBetweenSteps:
    def compared(
        self, change: Callable[[Steps], None], encoding: Encoding | None, the_long_way: Any
    ) -> None:
        """The same after a change between two steps, by the short way and by the long one."""
        outs = []
        both = []
        for _ in range(2):
            steps = Steps(encoding, pe.Cache())
            steps.run(3)
            change(steps)
            outs.append([steps.step() for _ in range(3)])
            both.append(steps)
            the_long_way()
        assert all(map(torch.equal, *outs))
        same(*both)

    @pytest.mark.parametrize("length", [0, 2, 6])
    def test_tokens_taken_back(self, length: int, the_long_way: Any) -> None:
        self.compared(lambda steps: steps.cache.truncate(length), pe.Rotary(DIM), the_long_way)

    def test_rows_exchanged(self, the_long_way: Any) -> None:
        rows = torch.tensor([1, 1])
        self.compared(lambda steps: steps.cache.reorder(rows), pe.Rotary(DIM), the_long_way)

    def test_several_tokens_at_once(self, the_long_way: Any) -> None:
        self.compared(lambda steps: steps.prompt(3), pe.Rotary(DIM), the_long_way)

    def test_another_base(self, the_long_way: Any) -> None:
        def change(steps: Steps) -> None:
            steps.encoding = pe.Rotary(DIM, base=100.0)

        self.compared(change, pe.Rotary(DIM), the_long_way)

    def test_keys_exchanged(self, the_long_way: Any) -> None:
        def change(steps: Steps) -> None:
            steps.cache.k = steps.cache.k * 2

        self.compared(change, pe.Rotary(DIM), the_long_way)

    def test_forgotten_and_set_anew(self, the_long_way: Any) -> None:
        def change(steps: Steps) -> None:
            steps.cache.reset()
            steps.encoding.base = 100.0
            steps.prompt()

        self.compared(change, pe.Rotary(DIM), the_long_way)

    @pytest.mark.parametrize("in_place", [True, False])
    def test_what_was_learned(self, in_place: bool, the_long_way: Any) -> None:
        encoding = pe.T5Bias(HEADS)
        (name, before), *_ = encoding.named_parameters()
        weights = before.detach().clone()

        def change(steps: Steps) -> None:
            if in_place:
                before.mul_(2.0)
            else:
                setattr(encoding, name, torch.nn.Parameter(2.0 * weights))

        outs = []
        with torch.no_grad():
            for _ in range(2):
                encoding.get_parameter(name).data = weights.clone()
                steps = Steps(encoding, pe.Cache())
                steps.run(3)
                change(steps)
                outs.append(steps.step())
                the_long_way()
        torch.testing.assert_close(*outs)

    def test_the_scale(self, the_long_way: Any) -> None:
        outs = []
        for _ in range(2):
            steps = Steps(pe.ALiBi(HEADS, inside=True), pe.Cache())
            steps.run(2)
            outs.append(steps.step(scale=0.5))
            the_long_way()
        torch.testing.assert_close(*outs)


def test_parameters_get_their_gradients(taken: list[bool]) -> None:
    steps = Steps(pe.T5Bias(HEADS), pe.Cache())
    with torch.no_grad():
        steps.run(1)
    steps.step().sum().backward()
    assert taken == [False, True, False]
    assert next(steps.encoding.parameters()).grad is not None
    with torch.no_grad():
        steps.step()
    assert taken[-1]


def test_a_bias_of_other_heads_is_refused_as_ever() -> None:
    steps = Steps(pe.ALiBi(HEADS), pe.Cache())
    steps.run(2)
    with pytest.raises(pe.ShapeError, match="8 heads"):
        attention.attend(*steps.tokens(1), pe.ALiBi(8), cache=steps.cache)
    assert len(steps.cache) == 7


def test_other_layouts_are_refused_as_ever() -> None:
    steps = Steps(pe.Rotary(DIM), pe.Cache())
    steps.run(2)
    steps.encoding = pe.Rotary(DIM, layout="interleaved")
    with pytest.raises(pe.CacheError, match="of the calls before"):
        steps.step()
    with pytest.raises(pe.ShapeError, match="head_dim=8"):
        attention.attend(*steps.tokens(1), pe.Rotary(8), cache=steps.cache)
    assert len(steps.cache) == 7


def test_padding_is_carried_on_the_long_way(taken: list[bool]) -> None:
    steps = Steps(pe.Rotary(DIM), pe.Cache())
    mask = torch.ones(2, 5, dtype=torch.bool)
    mask[0, :2] = False
    positions = pe.Positions.build(5, attention_mask=mask, causal=True)
    attention.attend(*steps.tokens(5), steps.encoding, positions=positions, cache=steps.cache)
    steps.step()
    assert taken == [False]


def test_gradients_reach_what_is_held(taken: list[bool]) -> None:
    steps = Steps(pe.Rotary(DIM), pe.Cache())
    q, k, v = (x.requires_grad_() for x in steps.tokens(5))
    attention.attend(q, k, v, steps.encoding, causal=True, cache=steps.cache)
    steps.step().sum().backward()
    assert taken == [False, False]
    assert k.grad is not None


def test_autocast_rounds_no_scores(taken: list[bool]) -> None:
    steps = Steps(pe.Rotary(DIM), pe.Cache())
    steps.prompt()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert steps.step().dtype == torch.float32
    assert taken == [False, False]
