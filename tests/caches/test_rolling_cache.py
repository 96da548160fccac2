"""A rolling cache gives what the full forward gives under the same masks, in constant memory."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import (
    CacheError,
    Context,
    Encoding,
    Positions,
    RollingCache,
    SettingError,
    Sinks,
    SlidingWindow,
    attend,
)
from posenc.testing.caches import LENGTH, ragged, require_same
from posenc.testing.fixtures import model_for
from tests.support.oracles import drawing

HEADS, DIM, TOKENS = 4, 8, 23
CHUNKS = [(1,) * TOKENS, (9,) + (1,) * 14, (3, 5, 2, 1, 1, 7, 4)]


def qkv(length: int = TOKENS) -> tuple[Tensor, Tensor, Tensor]:
    draw = drawing(2)
    return tuple(draw(2, heads, length, DIM) for heads in (HEADS, 2, 2))


def stream(encoding: Any, cache: RollingCache, chunks: Any, **given: Any) -> Tensor:
    """The output of all tokens; `given` makes the keywords of each call from its span."""
    out, at, tensors = [], 0, qkv(sum(chunks))
    for size in chunks:
        new = (x[:, :, at : at + size] for x in tensors)
        call = {name: make(at, at + size) for name, make in given.items()}
        call.setdefault("causal", True)
        out.append(attend(*new, encoding, cache=cache, **call))
        at += size
    return torch.cat(out, dim=2)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    "encoding", [pe.Rotary(DIM), pe.Learned(32, max_length=LENGTH), pe.ForgetGate(32, HEADS)]
)
def test_every_layer_evicts_alike(encoding: Encoding, padded: bool) -> None:
    model = model_for(encoding, masks=[SlidingWindow(4), Sinks(2)], depth=3)
    mask = ragged() if padded else None
    require_same(model, partial(RollingCache, 4, 2), (5, *(1,) * 9), mask)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize(("window", "sinks"), [(1, 0), (1, 2), (2, 1), (5, 0), (5, 3), (30, 2)])
def test_every_size_of_window_and_sinks(window: int, sinks: int, chunks: Any) -> None:
    masks = [SlidingWindow(window), *([Sinks(sinks)] if sinks else [])]
    cache = RollingCache(window, sinks)
    got = stream([pe.Rotary(DIM), *masks], cache, chunks)
    expected = attend(*qkv(), [pe.Rotary(DIM), *masks], causal=True)
    torch.testing.assert_close(got, expected)
    assert len(cache) == min(TOKENS, sinks + max(1, window - 1))
    assert cache.k.untyped_storage().nbytes() == cache.k.nbytes


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize(("chunk", "window"), [(1, None), (4, None), (8, 3), (30, None)])
def test_nothing_is_held_of_a_chunk_that_is_full(
    chunk: int, window: int | None, chunks: Any
) -> None:
    masks = [pe.Chunked(chunk), *([SlidingWindow(window)] if window else [])]
    cache = RollingCache(window, chunk=chunk)
    got = stream([pe.Rotary(DIM), *masks], cache, chunks)
    torch.testing.assert_close(got, attend(*qkv(), [pe.Rotary(DIM), *masks], causal=True))
    # The newest token stays in any case.
    recent = TOKENS % chunk
    assert len(cache) == max(1, recent if window is None else min(recent, window - 1))


def test_rows_of_different_padding_are_in_different_chunks() -> None:
    model = model_for(pe.Rotary(8), masks=[pe.Chunked(4)], depth=1)
    caches = require_same(model, partial(RollingCache, chunk=4), (5, 1, 1, 1, 6), ragged())
    # 11 tokens of one row and 14 of the other.
    assert len(caches[0]) == 3


def test_chunks_that_are_not_masked_so_are_refused() -> None:
    cache = RollingCache(chunk=6)
    with pytest.raises(CacheError, match=r"a chunk of 4: give the masks too, .*Chunked\(6\)\]"):
        stream([pe.Chunked(4)], cache, (5,))
    with pytest.raises(SettingError, match=r"RollingCache\(\) of no size"):
        RollingCache()


def test_tables_reach_as_far_as_positions_do() -> None:
    """Not as far as there are keys: sinks are long ago."""
    parts = [pe.KERPLE(HEADS).double(), SlidingWindow(3), Sinks(2)]
    cache = RollingCache(3, 2)
    got = stream(parts, cache, CHUNKS[2])
    torch.testing.assert_close(got, attend(*qkv(), parts, causal=True))
    assert cache.placed.bound == TOKENS


@pytest.mark.parametrize("chunks", CHUNKS)
def test_streaming_llm_equals_its_full_forward(chunks: Any) -> None:
    """Sinks with a rotary renumbers positions within the cache; keys are turned at each step."""
    streaming = Sinks(2, window=4, rotary=pe.Rotary(DIM))
    got = stream(streaming, RollingCache(4, 2, "raw"), chunks)
    torch.testing.assert_close(got, attend(*qkv(), streaming, causal=True))

    # By hand: the last query over the keys that its cache holds, at positions 0, 1, 2, ...
    q, k, v = qkv()
    held = [0, 1, *range(TOKENS - 4, TOKENS)]
    last = attend(q[:, :, -1:], k[:, :, held], v[:, :, held], pe.Rotary(DIM), causal=True)
    torch.testing.assert_close(got[:, :, -1:], last)


@pytest.mark.parametrize("sinks", [0, 2])
@pytest.mark.parametrize("chunks", CHUNKS)
def test_gates_of_evicted_tokens_are_not_forgotten(sinks: int, chunks: Any) -> None:
    """What lies between a sink and the window still takes its share off the sink's score."""
    gate, x = pe.ForgetGate(6, HEADS).double(), drawing(4)(2, TOKENS, 6)
    parts = [gate, SlidingWindow(4), *([Sinks(sinks)] if sinks else [])]
    cache = RollingCache(4, sinks)
    got = stream(parts, cache, chunks, context=lambda a, b: Context(x[:, a:b]))
    expected = attend(*qkv(), parts, causal=True, context=Context(x))
    torch.testing.assert_close(got, expected)
    assert cache.payload.shape == (2, HEADS, sinks + 3)
    assert cache.payload.dtype == torch.float64


def test_packed_documents_evict_those_that_ended() -> None:
    ids = torch.tensor([[0] * 6 + [1] * 17, [0] * 13 + [1] * 10])
    parts = [pe.Rotary(DIM), SlidingWindow(3), Sinks(2)]
    expected = attend(*qkv(), parts, positions=Positions.build(documents=ids, causal=True))
    cache = RollingCache(3, 2)

    def place(start: int, stop: int) -> Positions | None:
        if stop > 15:
            # Both rows are in their last document, which goes on.
            return None
        return Positions.build(stop - start, documents=ids[:, :stop], causal=True)

    out = stream(parts, cache, (5, 3, 7, *(1,) * 8), positions=place, causal=lambda a, b: None)
    torch.testing.assert_close(out, expected)
    # Two sinks in each row, at different columns, and the last two tokens.
    assert len(cache) == 6


def test_explicit_ids_are_given_for_all_tokens() -> None:
    """Coordinates of several axes: what was evicted is left out of them."""
    draw = torch.Generator().manual_seed(3)
    ids = torch.randint(40, (2, TOKENS, 3), generator=draw)
    parts = [pe.MRoPE(DIM, (2, 1, 1)), SlidingWindow(4), Sinks(1)]

    def place(start: int, stop: int) -> Positions:
        return Positions.build(stop - start, ids=ids[:, :stop], causal=True)

    cache = RollingCache(4, 1)
    got = stream(parts, cache, CHUNKS[2], positions=place)
    torch.testing.assert_close(got, attend(*qkv(), parts, positions=place(0, TOKENS)))
    with pytest.raises(CacheError, match=r"explicit ids, and nobody .*pass positions="):
        attend(*(x[:, :, :1] for x in qkv()), parts, causal=True, cache=cache)


def test_fewer_queries_than_new_keys_are_the_last() -> None:
    parts, (q, k, v), cache = (
        [pe.Rotary(DIM), SlidingWindow(4), Sinks(1)],
        qkv(),
        RollingCache(4, 1),
    )
    expected = attend(q, k, v, parts, causal=True)
    attend(q[:, :, 8:9], k[:, :, :9], v[:, :, :9], parts, causal=True, cache=cache)
    got = attend(q[:, :, 13:16], k[:, :, 9:16], v[:, :, 9:16], parts, causal=True, cache=cache)
    torch.testing.assert_close(got, expected[:, :, 13:16])


def test_beams_are_reordered_and_it_can_be_reset() -> None:
    parts, rows = [pe.Rotary(DIM), SlidingWindow(4), Sinks(1)], torch.tensor([1, 1, 0])
    mask = torch.ones(2, TOKENS, dtype=torch.bool)
    mask[0, :4] = False
    q, k, v = qkv()
    whole = Positions.build(attention_mask=mask[rows], causal=True)
    expected = attend(*(x[rows] for x in (q, k, v)), parts, positions=whole)
    cache = RollingCache(4, 1)
    first = Positions.build(attention_mask=mask[:, :12], causal=True)
    attend(*(x[:, :, :12] for x in (q, k, v)), parts, positions=first, cache=cache)
    cache.reorder(rows)
    got = attend(*(x[rows][:, :, 12:] for x in (q, k, v)), parts, causal=True, cache=cache)
    torch.testing.assert_close(got, expected[:, :, 12:])
    cache.reset()
    assert (len(cache), cache.seen) == (0, 0)
    torch.testing.assert_close(stream(parts, cache, CHUNKS[1]), attend(q, k, v, parts, causal=True))


def test_what_was_evicted_cannot_be_taken_back() -> None:
    cache = RollingCache(6, 1)
    parts, (q, k, v) = [pe.ALiBi(HEADS), SlidingWindow(6), Sinks(1)], qkv()
    attend(*(x[:, :, :5] for x in (q, k, v)), parts, causal=True, cache=cache)
    cache.truncate(3)
    got = attend(*(x[:, :, 3:8] for x in (q, k, v)), parts, causal=True, cache=cache)
    torch.testing.assert_close(got, attend(q, k, v, parts, causal=True)[:, :, 3:8])
    with pytest.raises(CacheError, match=r"truncate\(7\): of 8 tokens some were evicted"):
        cache.truncate(7)


def test_an_encoding_that_sees_what_is_evicted_is_refused() -> None:
    rope, new = pe.Rotary(DIM), [x[:, :, :3] for x in qkv()]
    seeing = {
        "these terms see every token": [rope],
        r"see a window of 5: .*SlidingWindow\(4\), Sinks\(1\)": [rope, SlidingWindow(5)],
        "see a window of 4 and 2 sinks: make the cache with sinks=2, as many as they": [
            rope,
            SlidingWindow(4),
            Sinks(2),
        ],
    }
    for said, parts in seeing.items():
        cache = RollingCache(4, 1)
        with pytest.raises(CacheError, match=said):
            attend(*new, parts, causal=True, cache=cache)
        assert len(cache) == cache.seen == 0
    with pytest.raises(CacheError, match=r"give the masks too, \[encoding, SlidingWindow\(4\)\]"):
        attend(*new, rope, causal=True, cache=RollingCache(4))
    # Narrower masks than the cache's are no harm.
    attend(*new, [rope, SlidingWindow(2)], causal=True, cache=RollingCache(4, 1))


def test_documents_in_the_list_are_refused() -> None:
    parts = [SlidingWindow(4), pe.Documents(torch.zeros(3).long())]
    with pytest.raises(CacheError, match=r"give Positions.build\(documents=...\)"):
        attend(*(x[:, :, :3] for x in qkv()), parts, causal=True, cache=RollingCache(4))


class Averaged(Encoding):
    """Its payload is no sum: one left out cannot be added to another."""

    def payload(self, x: Tensor) -> Tensor:
        return x.mean(dim=-1)[:, None]


def test_a_payload_that_does_not_add_up_is_refused() -> None:
    x = torch.zeros(2, 3, 5)
    with pytest.raises(CacheError, match="does not say that payloads of neighbours may be summed"):
        attend(
            *(y[:, :, :3] for y in qkv()),
            [Averaged(), SlidingWindow(4)],
            causal=True,
            context=Context(x),
            cache=RollingCache(4),
        )


def test_its_settings_and_length() -> None:
    with pytest.raises(SettingError, match="window=0"):
        RollingCache(0)
    with pytest.raises(SettingError, match="sinks=-1"):
        RollingCache(4, -1)
    cache, masks = RollingCache(3, length=8), [SlidingWindow(3)]
    stream(masks, cache, (5, 2))
    with pytest.raises(CacheError, match=r"saw 7 and was asked for 2 more.*length=8 at most"):
        attend(*(x[:, :, :2] for x in qkv()), masks, causal=True, cache=cache)
    said = "RollingCache(window=3, sinks=0, policy='rotated', length=8, chunk=None)"
    assert repr(cache) == f"{said} holding 2 tokens"
