"""Where short steps end: gradients, padding, full slots, and what is refused as ever."""

from collections.abc import Callable

import pytest
import torch

import posenc as pe
from posenc import CacheError, attention
from tests.support.steps import DIM, HEADS, Steps, same


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


def test_parameters_of_lowered_terms_get_their_gradients(taken: list[bool]) -> None:
    steps = Steps(pe.T5Bias(HEADS), pe.Cache())
    encoding = steps.encoding
    steps.prompt()
    steps.encoding = pe.lower(encoding, steps.cache.place(1))
    steps.step().sum().backward()
    assert taken == [False, False]
    assert next(encoding.parameters()).grad is not None


def test_a_bias_of_other_heads_is_refused_as_ever() -> None:
    steps = Steps(pe.ALiBi(HEADS), pe.Cache())
    steps.run(2)
    with pytest.raises(pe.ShapeError, match="8 heads"):
        attention.attend(*steps.tokens(1), pe.ALiBi(8), cache=steps.cache)
    with pytest.raises(pe.ShapeError, match="8 heads"):
        attention.attend(
            *steps.tokens(1), pe.lower(pe.ALiBi(8), steps.cache.place(1)), cache=steps.cache
        )
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


def test_terms_for_another_batch_are_refused_as_ever() -> None:
    steps = Steps(None, pe.Cache())
    steps.prompt()
    ids = torch.arange(6).expand(3, 6)
    steps.encoding = pe.lower(None, pe.Positions.build(1, 6, ids=ids, causal=True))
    with pytest.raises(pe.PositionsError, match="batch of 3"):
        steps.step()


@pytest.mark.parametrize("where", ["short", "long"])
@pytest.mark.parametrize("cache", [pe.Cache, lambda: pe.StaticCache(16)], ids=["growing", "static"])
def test_rows_take_their_padding_along(
    cache: Callable[[], pe.Cache], where: str, taken: list[bool], the_long_way: Callable[[], None]
) -> None:
    """As a beam search reorders them, after steps of either way."""
    lives = []
    for _ in range(2):
        steps = Steps([pe.Rotary(DIM), pe.ALiBi(HEADS)], cache(), padding=(3, 0))
        steps.run(1)
        if where == "long":
            steps.step(backend="reference")
        steps.cache.reorder(torch.tensor([1, 0]))
        lives.append([steps.step(), steps.step()])
        the_long_way()
    assert taken == [True, True, True]
    torch.testing.assert_close(*lives)


def test_padding_is_hidden_whatever_the_default_device_is(taken: list[bool]) -> None:
    one, other = (Steps(pe.ALiBi(HEADS), pe.Cache(), padding=(3, 0)) for _ in range(2))
    one.run(0)
    expected = other.run(1)[0]
    tokens = one.tokens(1)
    with torch.device("meta"):
        actual = attention.attend(*tokens, one.encoding, cache=one.cache)
    assert taken == [True, True]
    assert torch.equal(actual, expected)


def test_padding_that_is_told_anew_is_followed(
    taken: list[bool], the_long_way: Callable[[], None]
) -> None:
    lives = []
    for _ in range(2):
        steps = Steps(pe.ALiBi(HEADS), pe.Cache(), padding=(3, 0))
        steps.run(1)
        mask = torch.arange(7) >= torch.tensor([[2], [5]])
        told = pe.Positions.build(1, attention_mask=mask, causal=True)
        steps.step(positions=told)
        lives.append([steps.step(), steps.step()])
        the_long_way()
    assert taken == [True, True, True]
    torch.testing.assert_close(*lives)


@pytest.mark.parametrize("start", [0, 3, 11])
def test_slots_that_do_not_count_from_zero_go_the_long_way(
    start: int, taken: list[bool], the_long_way: Callable[[], None]
) -> None:
    outs = []
    for _ in range(2):
        steps = Steps([pe.Rotary(DIM), pe.SlidingWindow(3)], pe.StaticCache(16))
        positions = pe.Positions.build(5, start=start, causal=True)
        attention.attend(*steps.tokens(5), steps.encoding, positions=positions, cache=steps.cache)
        outs.append(steps.step())
        the_long_way()
    assert taken == [start == 0]
    torch.testing.assert_close(*outs)


def test_terms_are_lowered_for_all_slots() -> None:
    steps = Steps(pe.Rotary(DIM), pe.StaticCache(16))
    steps.prompt()
    for keys in (6, 16):
        steps.encoding = pe.lower(pe.Rotary(DIM), pe.Positions.build(1, keys, causal=True))
        if keys == 6:
            with pytest.raises(pe.PositionsError, match="1 queries and 16 keys"):
                steps.step()
    assert steps.step().shape == (2, HEADS, 1, DIM)


@pytest.mark.parametrize("settings", [{"start": 3}, {"extent": 12}, {"extent": 30}])
def test_an_extent_that_was_asked_for_is_carried_on_the_long_way(
    settings: dict[str, int], taken: list[bool]
) -> None:
    steps = Steps(pe.Rotary(DIM), pe.Cache(length=20))
    positions = pe.Positions.build(5, **settings, causal=True)
    attention.attend(*steps.tokens(5), steps.encoding, positions=positions, cache=steps.cache)
    steps.step()
    assert taken == [settings == {"extent": 12}]
    assert steps.cache.placed.extent == {3: 23, 12: 20, 30: 30}[next(iter(settings.values()))]


@pytest.mark.graph
@pytest.mark.parametrize("padding", [None, (3, 0)])
def test_a_graph_goes_on_where_steps_ended(padding: tuple[int, int] | None) -> None:
    """Where the tokens are that steps have counted is told inside of it."""
    graph, eager = (Steps(pe.Rotary(DIM), pe.Cache(), padding=padding) for _ in range(2))
    compiled = torch.compile(attention.attend, fullgraph=True, backend="eager")
    with torch.no_grad():
        graph.run(3)
        eager.run(3)
        assert graph.cache.counted is not None
        actual = compiled(*graph.tokens(1), graph.encoding, cache=graph.cache)
        torch.testing.assert_close(actual, eager.step())
    same(graph, eager)


def test_tokens_that_were_cut_off_by_hand_are_refused_as_ever() -> None:
    steps = Steps(pe.Rotary(DIM), pe.Cache())
    steps.run(3)
    steps.cache.k, steps.cache.v = steps.cache.k[:, :, :6], steps.cache.v[:, :, :6]
    with pytest.raises(CacheError, match="the last call placed 8"):
        steps.step()


def test_a_full_static_cache_is_refused_as_ever() -> None:
    steps = Steps(pe.Rotary(DIM), pe.StaticCache(7))
    steps.run(2)
    with pytest.raises(pe.CacheError, match="was asked for 1 more"):
        steps.step()
    steps.cache.truncate(6)
    steps.step()
    assert len(steps.cache) == 7


def test_slots_are_written_in_place() -> None:
    steps = Steps(pe.ALiBi(HEADS), pe.StaticCache(20))
    steps.prompt()
    where = steps.cache.k.data_ptr(), steps.cache.v.data_ptr(), steps.cache.position.data_ptr()
    before = steps.cache.k._version
    for _ in range(3):
        steps.step()
    cache = steps.cache
    assert (cache.k.data_ptr(), cache.v.data_ptr(), cache.position.data_ptr()) == where
    assert (len(cache), cache.k._version) == (8, before + 3)
    assert not cache.k[:, :, 8:].any()


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
