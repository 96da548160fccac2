"""A static cache whose tokens are placed by explicit ids, in some calls or in all."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

import posenc as pe
from posenc import CacheError, Positions, StaticCache, Tokens, attend
from tests.support.oracles import drawing

SLOTS, TOKENS = 12, 9
IDS = torch.tensor([0, 1, 2, 3, 10, 11, 12, 20, 21])
ROPE = pe.Rotary(8)


def qkv(start: int, stop: int) -> list[Tensor]:
    draw = drawing(2)
    return [draw(2, 2, TOKENS, 8)[:, :, start:stop] for _ in range(3)]


def told(start: int, stop: int, ids: Tensor = IDS, **more: Any) -> Positions:
    """Where the tokens of one call are, and all slots."""
    order, position = torch.arange(SLOTS), torch.zeros(SLOTS, dtype=torch.long)
    position[:stop] = ids[:stop]
    queries = Tokens(position[start:stop], order=order[start:stop])
    return Positions(queries, Tokens(position, order=order), True, extent=40, **more)


def expected(ids: Tensor = IDS) -> Tensor:
    return attend(*qkv(0, TOKENS), ROPE, positions=Positions.build(ids=ids, causal=True))


@pytest.mark.parametrize("explicit", [False, True])
def test_explicit_ids_come_after_tokens_that_were_counted(explicit: bool) -> None:
    first = {"positions": Positions.build(ids=IDS[:4], causal=True)} if explicit else {}
    cache = StaticCache(SLOTS)
    outs = [attend(*qkv(0, 4), ROPE, causal=True, cache=cache, **first)]
    for start, stop in ((4, 5), (5, 6), (6, 9)):
        outs.append(attend(*qkv(start, stop), ROPE, positions=told(start, stop), cache=cache))
        with pytest.raises(CacheError, match="explicit ids, and nobody but you knows"):
            attend(*qkv(0, 1), ROPE, causal=True, cache=cache)
    torch.testing.assert_close(torch.cat(outs, dim=2), expected())


def test_a_token_that_explicit_ids_placed_is_not_moved() -> None:
    cache = StaticCache(SLOTS)
    attend(*qkv(0, 4), ROPE, causal=True, cache=cache)
    attend(*qkv(4, 5), ROPE, positions=told(4, 5), cache=cache)
    with pytest.raises(CacheError, match="these positions put token 4 elsewhere"):
        attend(*qkv(5, 6), ROPE, positions=told(5, 6, torch.arange(TOKENS)), cache=cache)


def test_taking_back_and_beams_keep_what_was_told() -> None:
    cache, rows = StaticCache(SLOTS), torch.tensor([1, 0])
    attend(*qkv(0, 4), ROPE, causal=True, cache=cache)
    attend(*qkv(4, 7), ROPE, positions=told(4, 7), cache=cache)
    cache.truncate(5)
    cache.reorder(rows)
    new = [x[rows] for x in qkv(5, 9)]
    got = attend(*new, ROPE, positions=told(5, 9), cache=cache)
    torch.testing.assert_close(got, expected()[rows][:, :, 5:])
    cache.reset()
    got = attend(*qkv(0, TOKENS), ROPE, causal=True, cache=cache)
    torch.testing.assert_close(got, expected(torch.arange(TOKENS)))


# By `static`, which says that positions follow orders, and by ids, which say nothing of it.
@pytest.mark.parametrize("jumps", [False, True])
def test_positions_that_follow_orders_are_counted_on_where_they_were_counted_to(
    jumps: bool,
) -> None:
    cache = StaticCache(SLOTS)
    attend(*qkv(0, 4), ROPE, causal=True, cache=cache)
    place = told(4, 5, unit_step=True) if jumps else Positions.static(1, SLOTS, past=4)
    attend(*qkv(4, 5), ROPE, positions=place, cache=cache)
    if jumps:
        with pytest.raises(CacheError, match="explicit ids, and nobody but you knows"):
            attend(*qkv(5, 6), ROPE, causal=True, cache=cache)
        return
    got = attend(*qkv(5, 9), ROPE, causal=True, cache=cache)
    torch.testing.assert_close(got, expected(torch.arange(TOKENS))[:, :, 5:])


def test_a_place_that_was_asked_for_is_counted_on() -> None:
    cache, outs = StaticCache(SLOTS), []
    for start, stop in ((0, 4), (4, 5), (5, 9)):
        place = cache.place(stop - start, causal=True)
        outs.append(attend(*qkv(start, stop), ROPE, positions=place, cache=cache))
    torch.testing.assert_close(torch.cat(outs, dim=2), expected(torch.arange(TOKENS)))


@pytest.mark.graph
@pytest.mark.parametrize("explicit", [False, True])
def test_a_graph_serves_explicit_ids(explicit: bool) -> None:
    """It reads no values: what it cannot know it does not claim to know."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    first = {"positions": Positions.build(ids=IDS[:4], causal=True)} if explicit else {}
    cache = StaticCache(SLOTS)

    @torch.compile(fullgraph=True, backend=counter)
    def step(q: Tensor, k: Tensor, v: Tensor, place: Positions) -> Tensor:
        return attend(q, k, v, ROPE, positions=place, cache=cache)

    outs = [attend(*qkv(0, 4), ROPE, causal=True, cache=cache, **first)]
    outs += [step(*qkv(at, at + 1), told(at, at + 1)) for at in range(4, TOKENS)]
    torch.testing.assert_close(torch.cat(outs, dim=2), expected())
    # The first of them, by which tokens no longer count on, is a graph of its own.
    assert counter.frame_count == (1 if explicit else 2)
    with pytest.raises(CacheError, match="explicit ids, and nobody but you knows"):
        attend(*qkv(0, 1), ROPE, causal=True, cache=cache)


@pytest.mark.parametrize(
    ("told_of", "kept"),
    [
        # Of a row of padding on the right one column stays, and of three none.
        ({"attention_mask": torch.tensor([[1, 1, 1, 0, 0, 0], [1] * 6])}, 4),
        ({"attention_mask": torch.tensor([[0, 0, 0, 1, 1, 1], [1] * 6])}, 2),
        ({"documents": torch.tensor([[0, 0, 0, 0, 1, 1], [2, 2, 3, 3, 3, 3]])}, 3),
    ],
)
def test_a_part_of_a_prompt_is_gone_on_from(told_of: dict[str, Tensor], kept: int) -> None:
    outs = []
    for cache in (pe.Cache(), StaticCache(SLOTS)):
        first = Positions.build(causal=True, **told_of)
        attend(*qkv(0, 6), ROPE, positions=first, cache=cache)
        attend(*qkv(6, 7), ROPE, causal=True, cache=cache)
        cache.truncate(kept)
        steps = [attend(*qkv(*of), ROPE, causal=True, cache=cache) for of in ((6, 7), (7, 9))]
        outs.append(torch.cat(steps, dim=2))
    torch.testing.assert_close(outs[1], outs[0])


def test_what_inference_mode_began_goes_on_outside_of_it() -> None:
    def begun() -> StaticCache:
        cache = StaticCache(SLOTS)
        with torch.inference_mode():
            attend(*qkv(0, 4), ROPE, causal=True, cache=cache)
        return cache

    def check(cache: StaticCache, start: int, step: int) -> None:
        for at in range(start, TOKENS, step):
            new = slice(at, min(at + step, TOKENS))
            got = attend(*qkv(new.start, new.stop), ROPE, causal=True, cache=cache)
            torch.testing.assert_close(got, expected(torch.arange(TOKENS))[:, :, new])

    for step in (1, 3):
        check(begun(), 4, step)
        taken_back, again, elsewhere = begun(), begun(), begun()
        taken_back.truncate(2)
        check(taken_back, 2, step)
        again.reset()
        check(again, 0, step)
        with torch.inference_mode():
            elsewhere.reset()
        check(elsewhere, 0, step)
    beams = begun()
    beams.reorder(torch.tensor([0, 1]))
    check(beams, 4, 1)
    refused = begun()
    with pytest.raises(CacheError, match="use one cache per layer and per batch"):
        attend(*(x[:1] for x in qkv(4, 6)), ROPE, causal=True, cache=refused)
    check(refused, 4, 1)
