"""Positions of caches: growing, of fixed size, rolling."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import posenc as pe
from posenc import Positions, Rotary
from tests.support.oracles import drawing


@given(past=st.integers(0, 6), new=st.integers(1, 4))
def test_past_tokens_are_in_front(past: int, new: int) -> None:
    for at in (
        Positions.build(new, past=past, causal=True),
        Positions.build(past=past, ids=torch.arange(past + new), causal=True),
        Positions.build(new, past + new, past=past, causal=True),
    ):
        assert (at.q_len, at.k_len) == (new, past + new)
        assert at.queries.position.tolist() == list(range(past, past + new))


@settings(max_examples=30)
@given(pasts=st.lists(st.integers(0, 5), min_size=1, max_size=3), new=st.integers(1, 3))
def test_slots_hold_each_row_as_far_as_it_has_got(pasts: list[int], new: int) -> None:
    slots, batch = 9, len(pasts)
    draw = drawing(5)
    q, k, v = draw(batch, 4, new, 8), draw(batch, 2, slots, 8), draw(batch, 2, slots, 8)
    encoding = [Rotary(8), pe.T5Bias(4).double(), pe.FIRE(4).double()]
    at = Positions.static(new, slots, torch.tensor(pasts))
    assert at.unit_step
    together = pe.attend(q, k, v, encoding, positions=at)
    for row, past in enumerate(pasts):
        end, one = past + new, slice(row, row + 1)
        own = Positions.build(new, past=past, causal=True)
        alone = pe.attend(q[one], k[one, :, :end], v[one, :, :end], encoding, positions=own)
        torch.testing.assert_close(together[one], alone, rtol=0, atol=1e-12)
    shared = Positions.static(new, slots, pasts[0])
    assert torch.equal(shared.queries.position[0], at.queries.position[0])
    assert torch.equal(shared.keys.valid[0], at.keys.valid[0])


ROLLED = st.tuples(st.integers(0, 12), st.integers(1, 3), st.integers(1, 4), st.integers(0, 3))


def held(past: int, new: int, window: int, sinks: int) -> list[int]:
    """The tokens that a cache of sinks and a window still has, one by one."""
    nearest = range(past - window + 1, past + new)
    return [n for n in range(past + new) if n < sinks or n in nearest]


@settings(max_examples=30)
@given(sizes=ROLLED)
def test_a_rolling_cache_sees_what_the_window_sees(sizes: tuple[int, int, int, int]) -> None:
    past, new, window, sinks = sizes
    kept = held(past, new, window, sinks)
    at = Positions.rolling(new, past=past, window=window, sinks=sinks)
    assert at.keys.position.tolist() == at.orders()[1].tolist() == kept
    assert at.queries.position.tolist() == list(range(past, past + new))
    assert (at.unit_step, at.bound) == (True, past + new)
    draw = drawing(6)
    q, k, v = (draw(1, 4, past + new, 8) for _ in range(3))
    masks = [pe.SlidingWindow(window), *([pe.Sinks(sinks)] if sinks else [])]
    encoding = [Rotary(8), pe.ALiBi(4), *masks]
    whole = pe.attend(q, k, v, encoding, causal=True)[:, :, past:]
    rolled = pe.attend(q[:, :, past:], k[:, :, kept], v[:, :, kept], encoding, positions=at)
    torch.testing.assert_close(rolled, whole, rtol=0, atol=1e-12)
    if new == 1:
        bare = pe.attend(q[:, :, past:], k[:, :, kept], v[:, :, kept], encoding[:2], positions=at)
        torch.testing.assert_close(bare, whole, rtol=0, atol=1e-12)


@settings(max_examples=30)
@given(past=st.integers(0, 12), window=st.integers(1, 4), sinks=st.integers(1, 3))
def test_a_renumbered_cache_is_streaming_llm(past: int, window: int, sinks: int) -> None:
    """The same as `Sinks`, which holds all keys and moves the query by what a cache drops."""
    kept = held(past, 1, window, sinks)
    at = Positions.rolling(past=past, window=window, sinks=sinks, renumbered=True)
    assert at.keys.position.tolist() == list(range(len(kept)))
    assert at.orders()[1].tolist() == kept
    assert at.unit_step == (len(kept) == past + 1)
    assert at.lengths()[0].tolist() == [[len(kept)]]
    # They never grow, so that a table of as many rows serves for ever.
    assert at.bound == len(kept)
    draw = drawing(7)
    q, k, v = draw(1, 4, 1, 8), draw(1, 2, past + 1, 8), draw(1, 2, past + 1, 8)
    streaming = pe.Sinks(sinks, window=window, rotary=Rotary(8))
    expected = pe.attend(q, k, v, streaming, causal=True)
    actual = pe.attend(q, k[:, :, kept], v[:, :, kept], Rotary(8), positions=at)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
