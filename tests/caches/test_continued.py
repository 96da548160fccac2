"""Later calls go on from what the first one told: padding, lengths, starts."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc import (
    Cache,
    CacheError,
    Context,
    Positions,
    attend,
)
from tests.support.decoding import DIM, ENCODINGS, HEADS, LENGTH, POLICIES, Gated, Stretched, qkv
from tests.support.oracles import drawing


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ENCODINGS)
def test_padding_is_told_once(name: str, policy: str, side: str) -> None:
    """Later calls count on from each row's last real token, and never see the padding."""
    q, k, v = qkv()
    pads, cache = slice(0, 3) if side == "left" else slice(2, 5), Cache(policy)
    mask = torch.ones(2, 5, dtype=torch.bool)
    mask[0, pads] = False
    first = Positions.build(attention_mask=mask, causal=True)
    attend(*(x[:, :, :5] for x in (q, k, v)), ENCODINGS[name], positions=first, cache=cache)
    rest = [
        attend(*(x[:, :, at] for x in (q, k, v)), ENCODINGS[name], causal=True, cache=cache)
        for at in (slice(5, 6), slice(6, 9))
    ]
    got = torch.cat(rest, dim=2)
    real = [at for at in range(LENGTH) if not pads.start <= at < pads.stop]
    short = attend(*(x[:1, :, real] for x in (q, k, v)), ENCODINGS[name], causal=True)
    torch.testing.assert_close(got[:1], short[:, :, 2:])
    full = attend(*(x[1:] for x in (q, k, v)), ENCODINGS[name], causal=True)
    torch.testing.assert_close(got[1:], full[:, :, 5:])


def test_a_row_that_begins_later() -> None:
    """A row of padding alone starts to count with its first real token."""
    q, k, v = qkv()
    mask = torch.tensor([[False] * 4, [True] * 4])
    cache, first = Cache(), Positions.build(attention_mask=mask, causal=True)
    attend(*(x[:, :, :4] for x in (q, k, v)), pe.Rotary(DIM), positions=first, cache=cache)
    place = cache.place(5, causal=True)
    assert place.queries.position.tolist() == [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]]
    got = attend(*(x[:, :, 4:] for x in (q, k, v)), pe.Rotary(DIM), positions=place, cache=cache)
    alone = attend(*(x[:1, :, 4:] for x in (q, k, v)), pe.Rotary(DIM), causal=True)
    torch.testing.assert_close(got[:1], alone)


def test_explicit_ids_cannot_be_continued() -> None:
    q, k, v = qkv()
    for ids in (torch.arange(5) * 2, Positions.build(ids=torch.arange(5), causal=True)):
        cache = Cache()
        attend(*(x[:, :, :5] for x in (q, k, v)), pe.Rotary(DIM), positions=ids, cache=cache)
        with pytest.raises(CacheError, match="nobody but you knows those of the next 4"):
            attend(*(x[:, :, 5:] for x in (q, k, v)), pe.Rotary(DIM), causal=True, cache=cache)
        assert len(cache) == 5


@pytest.mark.parametrize("policy", POLICIES)
def test_lengths_stay_fixed_while_padding_is_carried_on(policy: str) -> None:
    q, k, v = qkv()
    mask = torch.ones(2, LENGTH, dtype=torch.bool)
    mask[0, :3] = False
    cache = Cache(policy, length=LENGTH)
    first = Positions.build(attention_mask=mask[:, :4], causal=True)
    out = [attend(*(x[:, :, :4] for x in (q, k, v)), Stretched(), positions=first, cache=cache)]
    for at in range(4, LENGTH):
        new = (x[:, :, at : at + 1] for x in (q, k, v))
        out.append(attend(*new, Stretched(), causal=True, cache=cache))
    whole = Positions.build(attention_mask=mask, causal=True, extent=LENGTH)
    expected = attend(q, k, v, Stretched(), positions=whole)
    real = [x.transpose(1, 2)[mask] for x in (torch.cat(out, dim=2), expected)]
    torch.testing.assert_close(*real)


@pytest.mark.parametrize("policy", POLICIES)
def test_tokens_are_taken_back(policy: str) -> None:
    """As speculative decoding does with those that it rejects."""
    q, k, v = qkv()
    mask = torch.ones(2, LENGTH, dtype=torch.bool)
    mask[0, :2] = False
    whole = Positions.build(attention_mask=mask, causal=True)
    expected = attend(q, k, v, pe.Rotary(DIM), positions=whole)
    cache, first = Cache(policy), Positions.build(attention_mask=mask[:, :4], causal=True)
    attend(*(x[:, :, :4] for x in (q, k, v)), pe.Rotary(DIM), positions=first, cache=cache)
    for start, stop, kept in ((4, 8, 5), (5, 9, 9)):
        new = (x[:, :, start:stop] for x in (q, k, v))
        got = attend(*new, pe.Rotary(DIM), causal=True, cache=cache)
        torch.testing.assert_close(got, expected[:, :, start:stop])
        cache.truncate(kept)
        assert len(cache) == kept
    with pytest.raises(CacheError, match=r"truncate\(10\): it can keep 0 to 9 of them"):
        cache.truncate(10)
    cache.truncate(0)
    assert cache.k is None
    assert cache.placed is None


def test_beams_are_reordered() -> None:
    (q, k, v), x = qkv(), drawing(3)(2, LENGTH, 5)
    gate, rows = Gated(5, HEADS).double(), torch.tensor([1, 0, 0])
    mask = torch.ones(2, LENGTH, dtype=torch.bool)
    mask[1, :3] = False
    whole = Positions.build(attention_mask=mask[rows], causal=True)
    encoding = [pe.Rotary(DIM), gate]
    call = {"positions": whole, "context": Context(x[rows])}
    expected = attend(*(y[rows] for y in (q, k, v)), encoding, **call)
    cache, first = Cache(), Positions.build(attention_mask=mask[:, :6], causal=True)
    call = {"positions": first, "context": Context(x[:, :6])}
    attend(*(y[:, :, :6] for y in (q, k, v)), encoding, **call, cache=cache)
    cache.reorder(rows)
    new = [y[rows][:, :, 6:] for y in (q, k, v)]
    got = attend(*new, encoding, causal=True, context=Context(x[rows][:, 6:]), cache=cache)
    torch.testing.assert_close(got, expected[:, :, 6:])
    empty = Cache()
    empty.reorder(rows)
    assert len(empty) == 0


CACHES = [
    (Cache, []),
    (lambda: pe.StaticCache(12), []),
    (lambda: pe.RollingCache(3, 1), [pe.SlidingWindow(3), pe.Sinks(1)]),
]


@pytest.mark.parametrize(("make", "masks"), CACHES)
@pytest.mark.parametrize(
    "encoding", [pe.ForgetGate(5, HEADS), pe.Mamba3Rotary(5, HEADS, DIM), pe.CABLE(5, HEADS)]
)
def test_beams_begin_from_one_prompt(encoding: pe.Encoding, make: Any, masks: Any) -> None:
    draw, rows = drawing(3), torch.tensor([0, 0, 0])
    q, k, v = (draw(3, HEADS, LENGTH, DIM) for _ in range(3))
    x, parts, cache = draw(3, LENGTH, 5), [encoding.double(), *masks], make()
    for whole in (q, k, v):
        whole[:, :, :5] = whole[:1, :, :5].clone()
    x[:, :5] = x[:1, :5].clone()
    with torch.no_grad():
        expected = attend(q, k, v, parts, causal=True, context=Context(x))
        prompt = [y[:1, :, :5] for y in (q, k, v)]
        attend(*prompt, parts, causal=True, context=Context(x[:1, :5]), cache=cache)
        cache.reorder(rows)
        for at in range(5, LENGTH):
            new, context = slice(at, at + 1), Context(x[:, at : at + 1])
            tokens = [y[:, :, new] for y in (q, k, v)]
            got = attend(*tokens, parts, causal=True, context=context, cache=cache)
            torch.testing.assert_close(got, expected[:, :, new])


@pytest.mark.parametrize(("make", "masks"), CACHES)
def test_beams_share_what_one_row_told_of_all(make: Any, masks: Any) -> None:
    (q, k, v), x, rows = qkv(), drawing(3)(1, LENGTH, 5), torch.tensor([1, 0, 0])
    parts, cache = [pe.ForgetGate(5, HEADS).double(), *masks], make()
    with torch.no_grad():
        expected = attend(q, k, v, parts, causal=True, context=Context(x))[rows]
        prompt = [y[:, :, :5] for y in (q, k, v)]
        attend(*prompt, parts, causal=True, context=Context(x[:, :5]), cache=cache)
        cache.reorder(rows)
        new, context = [y[rows][:, :, 5:] for y in (q, k, v)], Context(x[:, 5:])
        got = attend(*new, parts, causal=True, context=context, cache=cache)
    torch.testing.assert_close(got, expected[:, :, 5:])


# Prompts that end before the length, at it and beyond it, and extents below and above it.
@pytest.mark.parametrize("prompt", [4, 7, 8])
@pytest.mark.parametrize("extent", [None, 12, 30])
@pytest.mark.parametrize("start", [0, 2])
def test_a_length_is_that_of_all_tokens_wherever_they_start(
    prompt: int, extent: int | None, start: int
) -> None:
    (q, k, v), length = qkv(), 16
    encoding = pe.Rotary(DIM, scaling=pe.DynamicNTK(2.0, 4))
    reach = max(length + start, extent or 0)
    at = Positions.build(9, start=start, extent=reach, causal=True)
    expected = attend(q, k, v, encoding, positions=at)
    cache = Cache(length=length)
    first = Positions.build(prompt, start=start, extent=extent, causal=True)
    given = [x[:, :, :prompt] for x in (q, k, v)]
    outs = [attend(*given, encoding, positions=first, cache=cache)]
    for n in range(prompt, 9):
        outs.append(attend(*(x[:, :, n : n + 1] for x in (q, k, v)), encoding, cache=cache))
    torch.testing.assert_close(torch.cat(outs, dim=2), expected)


@pytest.mark.parametrize("make", [Cache, pe.StaticCache])
@pytest.mark.parametrize(("start", "extent"), [(0, None), (2, None), (0, 30), (2, 30)])
def test_terms_lowered_for_the_places_of_a_cache_with_a_length(
    start: int, extent: int | None, make: Any
) -> None:
    (q, k, v), length = qkv(), 18
    encoding = pe.Rotary(DIM, scaling=pe.DynamicNTK(2.0, 4))
    reach = extent or length + start
    at = Positions.build(9, start=start, extent=reach, causal=True)
    expected = attend(q, k, v, encoding, positions=at)
    cache, outs = make(length=length), []
    for new in (slice(0, 6), slice(6, 7), slice(7, 9)):
        first = Positions.build(6, start=start, extent=extent, causal=True)
        place = cache.place(new.stop - new.start, None if len(cache) else first)
        terms = pe.lower(encoding, place, dtype=torch.float64, keys_prerotated=True)
        outs.append(attend(*(x[:, :, new] for x in (q, k, v)), terms, cache=cache))
    torch.testing.assert_close(torch.cat(outs, dim=2), expected)


def test_terms_of_another_length_than_that_of_the_keys_are_refused() -> None:
    encoding = pe.Rotary(DIM, scaling=pe.DynamicNTK(2.0, 4))
    new, cache = [x[:, :, :6] for x in qkv()], Cache(length=18)

    def terms(extent: int, start: int = 2) -> pe.Lowered:
        at = Positions.build(6, start=start, extent=extent, causal=True)
        return pe.lower(encoding, at, dtype=torch.float64, keys_prerotated=True)

    with pytest.raises(CacheError, match="for an extent of 19, not of 20"):
        attend(*new, terms(19), cache=cache)
    attend(*new, terms(20), cache=cache)
    with pytest.raises(CacheError, match="for an extent of 30, not of 20"):
        attend(*new, terms(30), cache=cache)


def test_a_prompt_longer_than_the_length_less_its_start() -> None:
    (q, k, v), encoding = qkv(), pe.Rotary(DIM, scaling=pe.DynamicNTK(2.0, 4))
    expected = attend(q, k, v, encoding, positions=Positions.build(9, start=2, causal=True))
    cache, first = Cache(length=9), Positions.build(8, start=2, causal=True)
    attend(*(x[:, :, :8] for x in (q, k, v)), encoding, positions=first, cache=cache)
    got = attend(*(x[:, :, 8:] for x in (q, k, v)), encoding, cache=cache)
    torch.testing.assert_close(got, expected[:, :, 8:])


@pytest.mark.parametrize("length", [None, LENGTH])
def test_a_row_of_padding_alone_begins_at_the_start(length: int | None) -> None:
    (q, k, v), mask = qkv(), torch.ones(2, 4, dtype=torch.bool)
    mask[1] = False
    first = Positions.build(attention_mask=mask, start=2, causal=True)
    cache = Cache(length=length)
    attend(*(x[:, :, :4] for x in (q, k, v)), pe.Rotary(DIM), positions=first, cache=cache)
    attend(*(x[:, :, 4:6] for x in (q, k, v)), pe.Rotary(DIM), cache=cache)
    assert cache.placed.queries.position.tolist() == [[6, 7], [2, 3]]


@pytest.mark.parametrize("length", [None, LENGTH, 20])
def test_positions_that_start_elsewhere_go_on_from_there(length: int | None) -> None:
    q, k, v = qkv()
    bias = pe.KERPLE(HEADS).double()
    for encoding in (pe.Rotary(DIM), bias, [pe.FIRE(HEADS).double(), pe.T5Bias(HEADS, 4, 4)]):
        expected = attend(q, k, v, encoding, positions=Positions.build(9, start=2, causal=True))
        cache, first = Cache(length=length), Positions.build(4, start=2, causal=True)
        attend(*(x[:, :, :4] for x in (q, k, v)), encoding, positions=first, cache=cache)
        for at in range(4, 9):
            new = (x[:, :, at : at + 1] for x in (q, k, v))
            got = attend(*new, encoding, causal=True, cache=cache)
            torch.testing.assert_close(got, expected[:, :, at : at + 1])
        assert cache.placed.keys.position[-1] == 10
        assert cache.placed.bound >= 11
