"""A static cache gives what the full forward gives, in place, and one graph serves every step."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

import posenc as pe
from posenc import (
    CacheError,
    Context,
    Encoding,
    Positions,
    SettingError,
    StaticCache,
    Tokens,
    attend,
    lower,
)
from posenc.testing.caches import LENGTH, ragged, whole
from posenc.testing.fixtures import model_for, tokens_for
from tests.support.oracles import drawing

HEADS, DIM, TOKENS = 4, 8, 9


def qkv(length: int = TOKENS) -> tuple[Tensor, Tensor, Tensor]:
    draw = drawing(2)
    return tuple(draw(2, heads, length, DIM) for heads in (HEADS, 2, 2))


def stream(encoding: Any, cache: StaticCache, chunks: Any, causal: bool = True) -> Tensor:
    out, at = [], 0
    for size in chunks:
        new = (x[:, :, at : at + size] for x in qkv())
        out.append(attend(*new, encoding, causal=causal, cache=cache))
        at += size
    return torch.cat(out, dim=2)


FAMILIES: dict[str, Callable[[], Encoding]] = {
    "absolute": lambda: pe.Learned(16, max_length=LENGTH),
    "rotary": lambda: pe.Rotary(16),
    "zones": lambda: pe.Sinks(1, window=4, rotary=pe.Rotary(16)),
    "bias": lambda: pe.ALiBi(4),
    "table": lambda: pe.KERPLE(4),
    "content": lambda: pe.Shaw(16, clip=2),
    "gate": lambda: pe.ForgetGate(16, 4),
}


@pytest.mark.graph
@pytest.mark.parametrize(
    ("family", "padded"), [*((family, False) for family in FAMILIES), ("rotary", True)]
)
def test_one_graph_serves_every_step(family: str, padded: bool) -> None:
    torch._dynamo.reset()
    model, tokens = model_for(FAMILIES[family]()), tokens_for(LENGTH)
    mask = ragged() if padded else torch.ones_like(ragged())
    counter = CompileCounterWithBackend("aot_eager")
    step = torch.compile(model, fullgraph=True, backend=counter)
    policy = "raw" if family == "zones" else "rotated"
    caches = [StaticCache(LENGTH, policy) for _ in model.blocks]
    first = Positions.build(attention_mask=mask[:, :4], causal=True) if padded else None
    with torch.no_grad():
        steps = [model(tokens[:, :4], first, caches)]
        where = caches[0].k.data_ptr(), caches[0].v.data_ptr()
        steps += [step(tokens[:, at : at + 1], caches=caches) for at in range(4, LENGTH)]
        expected = model(tokens, whole(mask))
        assert counter.frame_count == 1
        assert (caches[0].k.data_ptr(), caches[0].v.data_ptr()) == where
        # A graph reads no values: what checks that a slot is left is torch.
        with pytest.raises(RuntimeError, match=r"full|bounds"):
            step(tokens[:, :1], caches=caches)
    torch.testing.assert_close(torch.cat(steps, dim=1)[mask], expected[mask])


@pytest.mark.graph
def test_the_prompt_compiles_too_and_a_reset_keeps_the_graph() -> None:
    torch._dynamo.reset()
    model, tokens = model_for(pe.Rotary(16)), tokens_for(LENGTH)
    counter = CompileCounterWithBackend("aot_eager")
    step = torch.compile(model, fullgraph=True, dynamic=False, backend=counter)
    caches = [StaticCache(LENGTH) for _ in model.blocks]
    with torch.no_grad():
        expected = model(tokens, whole(None))
        for _ in range(2):
            got = [step(tokens[:, :4], caches=caches)]
            got += [step(tokens[:, at : at + 1], caches=caches) for at in range(4, LENGTH)]
            torch.testing.assert_close(torch.cat(got, dim=1), expected)
            for cache in caches:
                cache.reset()
    # The prompt of a fresh cache, that of one whose slots are there, and the step.
    assert counter.frame_count <= 3


@pytest.mark.parametrize("policy", ["rotated", "raw"])
def test_chunks_and_free_slots(policy: str) -> None:
    expected = attend(*qkv(), pe.Rotary(DIM), causal=True)
    for chunks in ((9,), (1,) * 9, (4, 3, 2), (1, 5, 1, 2)):
        for length in (9, 32):
            cache = StaticCache(length, policy)
            torch.testing.assert_close(stream(pe.Rotary(DIM), cache, chunks), expected)
            assert cache.k.shape == (2, 2, length, DIM)


def test_slots_that_are_not_written_are_hidden_without_causality_too() -> None:
    q, k, v = qkv()
    cache = StaticCache(20)
    attend(*(x[:, :, :8] for x in (q, k, v)), cache=cache)
    cache.k[:, :, 9:], cache.v[:, :, 9:] = 50.0, 50.0
    got = attend(*(x[:, :, 8:] for x in (q, k, v)), cache=cache)
    torch.testing.assert_close(got, attend(q, k, v)[:, :, 8:])


def test_terms_lowered_for_all_slots() -> None:
    """As a compiled loop would lower them once; also for the keys of all slots."""
    expected = attend(*qkv(), pe.Rotary(DIM), causal=True)
    for turned in (False, True):
        cache, out = StaticCache(12), []
        for start, stop in ((0, 4), (4, 5), (5, 9)):
            positions = cache.place(stop - start, causal=True)
            lowered = lower(pe.Rotary(DIM), positions, dtype=torch.float64, keys_prerotated=turned)
            out.append(attend(*(x[:, :, start:stop] for x in qkv()), lowered, cache=cache))
        torch.testing.assert_close(torch.cat(out, dim=2), expected)


def test_packed_documents_go_on_in_the_last_one() -> None:
    ids = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 1])
    parts = [pe.Rotary(DIM), pe.SlidingWindow(3), pe.Sinks(1)]
    expected = attend(*qkv(), parts, positions=Positions.build(documents=ids, causal=True))
    cache = StaticCache(11)
    first = Positions.build(documents=ids[:5], causal=True)
    out = [attend(*(x[:, :, :5] for x in qkv()), parts, positions=first, cache=cache)]
    out += [attend(*(x[:, :, at : at + 2] for x in qkv()), parts, cache=cache) for at in (5, 7)]
    torch.testing.assert_close(torch.cat(out, dim=2), expected)


def test_explicit_ids_are_given_for_all_slots() -> None:
    draw = torch.Generator().manual_seed(3)
    ids, rope = torch.randint(40, (2, TOKENS, 3), generator=draw), pe.MRoPE(DIM, (2, 1, 1))
    expected = attend(*qkv(), rope, positions=Positions.build(ids=ids, causal=True))
    cache, out, slots = StaticCache(TOKENS), [], torch.arange(TOKENS)
    first = Positions.build(ids=ids[:, :4], causal=True)
    out.append(attend(*(x[:, :, :4] for x in qkv()), rope, positions=first, cache=cache))
    new = [x[:, :, 4:] for x in qkv()]
    with pytest.raises(CacheError, match="explicit ids, and nobody but you knows"):
        attend(*new, rope, causal=True, cache=cache)
    grown = Positions.build(5, ids=ids, causal=True)
    with pytest.raises(CacheError, match=r"give Positions\(Tokens\(..., order=...\), Tokens"):
        attend(*new, rope, positions=grown, cache=cache)
    queries, keys = Tokens(ids[:, 4:], slots[4:]), Tokens(ids, slots)
    positions = Positions(queries, keys, causal=True)
    out.append(attend(*new, rope, positions=positions, cache=cache))
    torch.testing.assert_close(torch.cat(out, dim=2), expected)


def test_taking_tokens_back_and_beams() -> None:
    q, k, v = qkv()
    gate, x = pe.ForgetGate(6, HEADS).double().requires_grad_(False), drawing(4)(2, TOKENS, 6)
    expected = attend(q, k, v, gate, causal=True, context=Context(x))
    cache, rows = StaticCache(12), torch.tensor([1, 0])

    def step(start: int, stop: int) -> Tensor:
        new, context = (y[:, :, start:stop] for y in (q, k, v)), Context(x[:, start:stop])
        return attend(*new, gate, causal=True, context=context, cache=cache)

    step(0, 5)
    torch.testing.assert_close(step(5, 8), expected[:, :, 5:8])
    cache.truncate(6)
    assert len(cache) == 6
    assert not cache.payload[..., 6:].any()
    torch.testing.assert_close(step(6, 7), expected[:, :, 6:7])
    where = cache.k.data_ptr()
    cache.reorder(rows)
    assert cache.k.data_ptr() == where
    q, k, v, x = q[rows], k[rows], v[rows], x[rows]
    torch.testing.assert_close(step(7, 8), expected[rows][:, :, 7:8])
    with pytest.raises(CacheError, match=r"truncate\(9\): it can keep 0 to 8"):
        cache.truncate(9)
    cache.reset()
    assert len(cache) == 0
    torch.testing.assert_close(step(0, 3), expected[rows][:, :, :3])


def test_gates_of_a_long_chunk_are_counted_from_its_own_tokens() -> None:
    """Counted from the last slot, scores would be off by one number, which float32 rounds away."""
    length, draw = 300, drawing(5)
    gate = pe.ForgetGate(6, HEADS, bias=-3.0).requires_grad_(False)
    q, k, v = (draw(1, HEADS, length, DIM) for _ in range(3))
    x = draw(1, length, 6)
    expected = attend(q, k, v, gate.double(), causal=True, context=Context(x))
    cache, out = StaticCache(length + 20), []
    gate, low = gate.float(), [y.float() for y in (q, k, v)]
    for new in (slice(0, 4), slice(4, length)):
        given: dict[str, Any] = {"causal": True, "context": Context(x[:, new].float())}
        new_tokens = [y[:, :, new] for y in low]
        out.append(attend(*new_tokens, gate, **given, cache=cache, backend="reference"))
    got = torch.cat(out, dim=2).double()
    torch.testing.assert_close(got, expected, rtol=2e-6, atol=2e-6)


def test_more_tokens_than_slots() -> None:
    cache, new = StaticCache(6), qkv()
    said = r"StaticCache\(length=6, policy='rotated'\) holding {} tokens was asked for {} more"
    with pytest.raises(CacheError, match=said.format(0, 9)):
        attend(*new, causal=True, cache=cache)
    attend(*(x[:, :, :5] for x in new), causal=True, cache=cache)
    before = cache.k.clone()
    with pytest.raises(CacheError, match=said.format(5, 2)):
        attend(*(x[:, :, :2] for x in new), causal=True, cache=cache)
    assert len(cache) == 5
    assert torch.equal(cache.k, before)


def test_what_it_cannot_hold_is_refused() -> None:
    q, k, v = (x[:, :, :2] for x in qkv())
    cache = StaticCache(6)
    with pytest.raises(CacheError, match=r"decode under torch.no_grad\(\)"):
        attend(q, k.clone().requires_grad_(), v, cache=cache)
    with pytest.raises(CacheError, match="Documents tells of as many tokens as there are"):
        attend(q, k, v, pe.Documents(torch.zeros(2).long()), cache=cache)
    attend(q, k, v, cache=cache)
    with pytest.raises(CacheError, match="got 1 queries and 2 new keys"):
        attend(q[:, :, :1], k, v, cache=cache)
    with pytest.raises(CacheError, match="use one cache per layer and per batch"):
        attend(q[:1], k[:1], v[:1], cache=cache)
    with pytest.raises(SettingError, match="length=0"):
        StaticCache(0)


def test_a_reset_cache_takes_another_batch() -> None:
    q, k, v = qkv()
    cache = StaticCache(TOKENS)
    stream(pe.Rotary(DIM), cache, (4, 5))
    cache.reset()
    one = [x[:1] for x in (q, k, v)]
    got = attend(*one, pe.Rotary(DIM), causal=True, cache=cache)
    torch.testing.assert_close(got, attend(*one, pe.Rotary(DIM), causal=True))
    assert cache.k.shape[0] == 1


def test_copies_go_on_apart() -> None:
    q, k, v = torch.randn(3, 1, 2, 6, 8).unbind()
    cache, parts = pe.StaticCache(8), [slice(0, 5), slice(5, 6)]
    with torch.no_grad():
        pe.attend(*(x[:, :, parts[0]] for x in (q, k, v)), causal=True, cache=cache)
        other = copy.copy(cache)
        pe.attend(*(-x[:, :, parts[1]] for x in (q, k, v)), causal=True, cache=other)
        last = pe.attend(*(x[:, :, parts[1]] for x in (q, k, v)), causal=True, cache=cache)
        expected = pe.attend(q, k, v, causal=True)[:, :, -1:]
    assert (len(cache), len(other)) == (6, 6)
    torch.testing.assert_close(last, expected)


@pytest.mark.parametrize("backend", ["sdpa", "reference"])
def test_nan_that_was_taken_back_is_gone(backend: str) -> None:
    q, k, v = torch.randn(3, 1, 2, 6, 8).unbind()
    cache = pe.StaticCache(8)
    with torch.no_grad():
        for x in (q[:, :, :3], torch.full((1, 2, 2, 8), torch.nan), q[:, :, 3:4]):
            if x.shape[2] == 1:
                cache.truncate(3)
            tokens = slice(len(cache), len(cache) + x.shape[2])
            held = x if x.isnan().any() else v[:, :, tokens]
            out = pe.attend(x, k[:, :, tokens], held, causal=True, cache=cache, backend=backend)
        expected = pe.attend(q[:, :, 3:4], k[:, :, :4], v[:, :, :4], causal=True)
    torch.testing.assert_close(out, expected)
