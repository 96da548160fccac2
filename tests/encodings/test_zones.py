"""ReRoPE, Self-Extend, LM-Infinite and re-indexed sinks: near as RoPE, far as they promise."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import (
    Cache,
    Encoding,
    LMInfinite,
    Positions,
    ReRoPE,
    Rotary,
    SelfExtend,
    Sinks,
    Tokens,
    attend,
)
from posenc.errors import CacheError, SettingError
from tests.support.oracles import drawing

LENGTH, HEADS, KEY_HEADS, DIM, WINDOW = 23, 4, 2, 8, 5
PLAIN = Rotary(DIM)


def qkv(length: int = LENGTH) -> tuple[Tensor, Tensor, Tensor]:
    draw = drawing(2)
    return tuple(draw(2, heads, length, DIM) for heads in (HEADS, KEY_HEADS, KEY_HEADS))


def turned_apart(q: Tensor, k: Tensor, distance: float, rotary: Rotary = PLAIN) -> Tensor:
    """Scores of every pair as if each key were `distance` tokens behind its query."""
    start = torch.zeros(LENGTH, dtype=torch.float64)
    q, k = pe.rotate(q, k, rotary, positions=Positions(Tokens(start + distance), Tokens(start)))
    return q @ k.repeat_interleave(HEADS // KEY_HEADS, dim=1).mT * DIM**-0.5


def band(low: int, high: int = LENGTH) -> Tensor:
    """Pairs whose keys are low .. high - 1 tokens behind their queries."""
    back = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    return (back >= low) & (back < high)


NEAR: dict[str, Encoding] = {
    "rerope": ReRoPE(DIM, WINDOW),
    "leaky": ReRoPE(DIM, WINDOW, leak=3.0),
    "self_extend": SelfExtend(DIM, WINDOW, group=3),
    "lm_infinite": LMInfinite(DIM, WINDOW, sinks=2),
    "sinks": Sinks(2, WINDOW, PLAIN),
}


@pytest.mark.parametrize("name", NEAR)
def test_within_the_window_it_is_rope(name: str) -> None:
    q, k, _ = qkv()
    found, plain = (pe.scores(q, k, e, causal=True) for e in (NEAR[name], PLAIN))
    near, far = band(0, WINDOW), band(2 * WINDOW)
    torch.testing.assert_close(found[..., near], plain[..., near], rtol=0, atol=1e-14)
    assert not torch.isclose(found[..., far], plain[..., far]).any()


def test_rerope_clips_the_distance() -> None:
    q, k, _ = qkv()
    found = pe.scores(q, k, ReRoPE(DIM, WINDOW), causal=True)[..., band(WINDOW)]
    torch.testing.assert_close(found, turned_apart(q, k, WINDOW)[..., band(WINDOW)])


@pytest.mark.parametrize("leak", [1.0, 1.5, 4.0])
def test_leaky_rerope_grows_by_one_every_leak_tokens(leak: float) -> None:
    q, k, _ = qkv()
    found = pe.scores(q, k, ReRoPE(DIM, WINDOW, leak=leak), causal=True)
    for beyond in range(LENGTH - WINDOW):
        at = band(WINDOW + beyond, WINDOW + beyond + 1)
        expected = turned_apart(q, k, WINDOW + beyond / leak)
        torch.testing.assert_close(found[..., at], expected[..., at])


def test_self_extend_gives_a_group_one_position() -> None:
    q, k, _ = qkv()
    same = k[:, :, :1].expand(k.shape)
    found = pe.scores(q, same, SelfExtend(DIM, window=4, group=3), causal=True)
    last = found[:, :, -1, : LENGTH - 4 - 1].unflatten(-1, (-1, 3))
    torch.testing.assert_close(last, last[..., :1].expand(last.shape))
    assert not torch.isclose(last[..., 1:, 0], last[..., :-1, 0]).any()


def test_groups_of_one_are_rope() -> None:
    q, k, _ = qkv()
    found, plain = (
        pe.scores(q, k, e, causal=True) for e in (SelfExtend(DIM, WINDOW, group=1), PLAIN)
    )
    torch.testing.assert_close(found, plain)


@pytest.mark.parametrize(("train_length", "max_length"), [(8, 24), (9, 100), (64, 64), (2, 7)])
def test_self_extend_for_a_model_stays_within_trained_distances(
    train_length: int, max_length: int
) -> None:
    made = SelfExtend.for_model(head_dim=DIM, train_length=train_length, max_length=max_length)
    (term,) = pe.lower(made, Positions.build(max_length, causal=True)).terms
    # The first pair turns by one radian per position.
    farthest = term.far.q_angle[0, 0, -1, 0] - term.far.k_angle[0, 0, 0, 0]
    assert farthest < train_length


def test_lm_infinite_is_rerope_under_a_window_and_sinks() -> None:
    q, k, v = qkv()
    parts = [ReRoPE(DIM, WINDOW), pe.SlidingWindow(WINDOW), Sinks(3)]
    expected = attend(q, k, v, parts, causal=True)
    torch.testing.assert_close(
        attend(q, k, v, LMInfinite(DIM, WINDOW, sinks=3), causal=True), expected
    )


def streamed(q: Tensor, k: Tensor, v: Tensor, sinks: Sinks) -> Tensor:
    """StreamingLLM token by token: what a rolling cache keeps is numbered anew at every step."""
    kept_k, kept_v, out = k[:, :, :0], v[:, :, :0], []
    for at in range(q.shape[2]):
        new = slice(at, at + 1)
        kept_k, kept_v = (
            torch.cat((old, x[:, :, new]), dim=2) for old, x in ((kept_k, k), (kept_v, v))
        )
        if kept_k.shape[2] > sinks.count + sinks.window:
            oldest = [i for i in range(kept_k.shape[2]) if i != sinks.count]
            kept_k, kept_v = kept_k[:, :, oldest], kept_v[:, :, oldest]
        out.append(attend(q[:, :, new], kept_k, kept_v, sinks.rotary, causal=True))
    return torch.cat(out, dim=2)


ROTARIES: dict[str, Rotary] = {
    "plain": PLAIN,
    "interleaved": Rotary(DIM, base=50.0, layout="interleaved"),
    "a part": Rotary(DIM, rotary_dim=4),
    "yarn": Rotary(DIM, scaling=pe.YaRN(4.0, original_length=8)),
}
EXACT = {"rtol": 0, "atol": 1e-13}


@pytest.mark.parametrize("name", ROTARIES)
@pytest.mark.parametrize(("count", "window"), [(1, 1), (2, 3), (4, 6), (3, LENGTH)])
def test_sinks_are_the_rolling_cache_of_streaming_llm(name: str, count: int, window: int) -> None:
    (q, k, v), sinks = qkv(), Sinks(count, window, ROTARIES[name])
    expected = streamed(q, k, v, sinks)
    torch.testing.assert_close(attend(q, k, v, sinks, causal=True), expected, **EXACT)
    cache, steps = Cache("raw"), []
    for new in (slice(0, 9), *(slice(at, at + 1) for at in range(9, LENGTH))):
        steps.append(attend(*(x[:, :, new] for x in (q, k, v)), sinks, causal=True, cache=cache))
    torch.testing.assert_close(torch.cat(steps, dim=2), expected, **EXACT)


def test_every_packed_document_streams_on_its_own() -> None:
    (q, k, v), sinks, lengths = qkv(), Sinks(2, 3, PLAIN), [11, 1, 4, 7]
    packed = attend(q, k, v, sinks, positions=Positions.build(lengths=lengths, causal=True))
    documents = zip(*(x.split(lengths, dim=2) for x in (q, k, v)), strict=True)
    alone = torch.cat([streamed(*document, sinks) for document in documents], dim=2)
    torch.testing.assert_close(packed, alone, **EXACT)


def test_padded_rows_stream_as_without_padding() -> None:
    (q, k, v), sinks = qkv(), Sinks(2, 3, PLAIN)
    mask = torch.ones(2, LENGTH)
    mask[0, :6], mask[1, 15:] = 0, 0
    found = attend(q, k, v, sinks, positions=Positions.build(attention_mask=mask, causal=True))
    for row, real in ((0, slice(6, None)), (1, slice(0, 15))):
        alone = streamed(*(x[row : row + 1, :, real] for x in (q, k, v)), sinks)
        torch.testing.assert_close(found[row : row + 1, :, real], alone, **EXACT)


@pytest.mark.parametrize("ids", [torch.arange(LENGTH) ** 2, torch.arange(LENGTH) / 3 + 70])
def test_while_nothing_is_dropped_ids_are_what_the_rotary_reads(ids: Tensor) -> None:
    (q, k, v), at = qkv(), Positions.build(ids=ids, causal=True)
    full = attend(q, k, v, Sinks(3, LENGTH - 3, PLAIN), positions=at)
    torch.testing.assert_close(full, attend(q, k, v, PLAIN, positions=at), **EXACT)
    # The last query drops one token, so it stands one position nearer to the sink.
    found = pe.scores(q, k, Sinks(1, LENGTH - 2, PLAIN), positions=at)[:, :, -1, 0]
    one_back = torch.cat((at.keys.position.double(), at.keys.position[-1:].double() - 1))
    expected = pe.scores(
        *(torch.cat((x, x[:, :, -1:]), dim=2) for x in (q, k)),
        PLAIN,
        positions=Positions.build(ids=one_back, causal=True),
    )
    torch.testing.assert_close(found, expected[:, :, -1, 0], **EXACT)


def test_sinks_alone_are_a_mask_and_with_a_rotary_an_encoding() -> None:
    alone, streaming = Sinks(2), Sinks(2, 3, ROTARIES["yarn"])
    assert (alone.family, streaming.family, Sinks.family) == ("mask", "rotary", "mask")
    assert not alone.tags.causal_only
    assert streaming.tags.causal_only
    assert streaming.tags.comparable is True
    # YaRN's factor on cos and sin stretches queries and keys.
    assert streaming.tags.translation_invariant
    assert not streaming.tags.norm_preserving
    assert (alone.head_dim, streaming.head_dim) == (None, DIM)


@pytest.mark.parametrize("name", NEAR)
def test_zones_are_causal_and_read_keys_that_were_not_turned(name: str) -> None:
    q, k, v = qkv()
    with pytest.raises(pe.UnsupportedError, match="causal attention only: pass causal=True"):
        attend(q, k, v, NEAR[name], causal=False)
    with pytest.raises(CacheError, match=r'use Cache\(policy="raw"\)'):
        attend(q, k, v, NEAR[name], causal=True, cache=Cache("rotated"))
    with pytest.raises(pe.PositionsError, match="one coordinate per token"):
        attend(q, k, v, NEAR[name], positions=torch.zeros(2, LENGTH, 2).long(), causal=True)


BAD: dict[str, Callable[[], Encoding]] = {
    r"ReRoPE\(dim=7\).*even": lambda: ReRoPE(7, 3),
    r"ReRoPE\(window=0\): window must be a whole number": lambda: ReRoPE(8, 0),
    r"ReRoPE\(base=-1.0\)": lambda: ReRoPE(8, 3, base=-1.0),
    r"ReRoPE\(layout='meta'\): layout is 'half' or": lambda: ReRoPE(8, 3, layout="meta"),
    r"ReRoPE\(leak=0.5\).*at least 1": lambda: ReRoPE(8, 3, leak=0.5),
    r"ReRoPE\(leak=nan\)": lambda: ReRoPE(8, 3, leak=float("nan")),
    r"SelfExtend\(dim=9\)": lambda: SelfExtend(9, 3, 2),
    r"SelfExtend\(window=-1\)": lambda: SelfExtend(8, -1, 2),
    r"SelfExtend\(group=0\): group must be a whole number": lambda: SelfExtend(8, 3, 0),
    r"SelfExtend\(layout='meta'\)": lambda: SelfExtend(8, 3, 2, layout="meta"),
    r"LMInfinite\(dim=0\)": lambda: LMInfinite(0, 3),
    r"LMInfinite\(window=0\)": lambda: LMInfinite(8, 0),
    r"LMInfinite\(sinks=0\)": lambda: LMInfinite(8, 3, sinks=0),
    r"LMInfinite\(layout='meta'\)": lambda: LMInfinite(8, 3, layout="meta"),
    r"Sinks\(window=3, rotary=None\).*give SlidingWindow": lambda: Sinks(2, 3),
    r"Sinks\(window=None, rotary=Rotary\(dim=8": lambda: Sinks(2, rotary=PLAIN),
    r"Sinks\(window=0\)": lambda: Sinks(2, 0, PLAIN),
    r"Sinks\(rotary=NoPE\(\)\): a Rotary is needed": lambda: Sinks(2, 3, pe.NoPE()),
    r"Sinks\(rotary=.*DynamicNTK.*within the cache the length does not grow": lambda: Sinks(
        2, 3, Rotary(8, scaling=pe.DynamicNTK(2.0, original_length=4))
    ),
}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("said", BAD)
def test_settings_that_have_no_meaning(said: str) -> None:
    with pytest.raises(SettingError, match=said):
        BAD[said]()
