"""What one cache keeps, and what it says of a call that it cannot serve."""

import pytest
import torch

import posenc as pe
from posenc import (
    Cache,
    CacheError,
    Context,
    Positions,
    PositionsError,
    attend,
    lower,
)
from posenc import terms as t
from posenc.mask_rules import Prefix
from tests.support.decoding import DIM, HEADS, LENGTH, Gated, decoded, qkv, spans
from tests.support.oracles import drawing


def test_keys_are_kept_as_the_policy_says() -> None:
    q, k, v = qkv()
    turned, _ = pe.rotate(k, k, pe.Rotary(DIM))
    rotated, raw = Cache("rotated"), Cache("raw")
    for cache in (rotated, raw):
        decoded(q, k, v, pe.Rotary(DIM), cache, (4, 1, 4))
    torch.testing.assert_close(rotated.k, turned)
    assert torch.equal(raw.k, k)
    assert torch.equal(raw.v, v)
    assert repr(raw) == "Cache(policy='raw', length=None) holding 9 tokens"


def test_a_refused_call_leaves_the_cache_as_it_was() -> None:
    (q, k, v), x = qkv(), drawing(3)(2, LENGTH, 5)
    gate, cache = Gated(5, HEADS).double(), Cache()
    first = [y[:, :, :4] for y in (q, k, v)]
    attend(*first, gate, causal=True, context=Context(x[:, :4]), cache=cache)
    rest = [y[:, :, 4:] for y in (q, k, v)]
    with pytest.raises(
        CacheError, match="was given 5 more and positions of 5: give those of all 9"
    ):
        attend(
            *rest,
            gate,
            positions=torch.arange(5),
            causal=True,
            context=Context(x[:, 4:]),
            cache=cache,
        )
    assert len(cache) == 4
    got = attend(*rest, gate, causal=True, context=Context(x[:, 4:]), cache=cache)
    expected = attend(q, k, v, gate, causal=True, context=Context(x))
    torch.testing.assert_close(got, expected[:, :, 4:])


def test_of_two_payloads_each_must_tell_of_what_width_it_is_made() -> None:
    (q, k, v), x = qkv(), drawing(3)(2, LENGTH, 5)
    gates = [Gated(5, HEADS).double(), Gated(5, HEADS).double()]
    attend(q, k, v, gates, causal=True, context=Context(x))
    gates[1].model_dim = None
    with pytest.raises(pe.UnsupportedError, match="two encodings of one call keep a payload"):
        attend(q, k, v, gates, causal=True, context=Context(x))


def test_a_full_cache_says_so() -> None:
    q, k, v = qkv()
    cache = Cache(length=5)
    attend(*(x[:, :, :4] for x in (q, k, v)), pe.Rotary(DIM), causal=True, cache=cache)
    said = r"length=5\) holding 4 tokens was asked for 2 more: it was made for length=5"
    with pytest.raises(CacheError, match=said):
        attend(*(x[:, :, 4:6] for x in (q, k, v)), pe.Rotary(DIM), causal=True, cache=cache)
    assert len(cache) == 4


def test_a_cache_belongs_to_one_layer_and_one_batch() -> None:
    q, k, v = qkv()
    cache = Cache()
    attend(q, k, v, causal=True, cache=cache)
    wrong = [
        [x[:1] for x in (q, k, v)],
        [q, k[:, :1], v[:, :1]],
        [x[..., :4] for x in (q, k, v)],
    ]
    for tensors in wrong:
        with pytest.raises(CacheError, match="use one cache per layer and per batch"):
            attend(*tensors, causal=True, cache=cache)
    assert len(cache) == LENGTH


@pytest.mark.usefixtures("unhooked")
def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(CacheError, match=r"policy='static'\): policy is 'rotated' or 'raw'"):
        Cache("static")


class Watched(pe.Rotary):
    """Remembers for how many keys it was asked."""

    def lower(self, positions, context=None, *, dtype=torch.float32):
        self.asked = positions.k_len
        return super().lower(positions, context, dtype=dtype)


def test_a_rotated_cache_asks_for_the_angles_of_new_keys_alone() -> None:
    q, k, v = qkv()
    for policy, expected in (("rotated", 2), ("raw", LENGTH)):
        rope, cache = Watched(DIM), Cache(policy)
        for span in spans((7, 2)):
            attend(*(x[:, :, span] for x in (q, k, v)), rope, causal=True, cache=cache)
        assert rope.asked == expected, policy
    # As a list, beside terms that read all keys.
    rope, cache = Watched(DIM), Cache()
    full = attend(q, k, v, [pe.Rotary(DIM), pe.ALiBi(HEADS), pe.FIRE(HEADS)], causal=True)
    assert full.shape == q.shape
    got = decoded(q, k, v, [rope, pe.ALiBi(HEADS)], cache, (4, 1, 4))
    torch.testing.assert_close(got, attend(q, k, v, [rope, pe.ALiBi(HEADS)], causal=True))


def test_terms_of_new_keys_alone_need_the_cache_that_turned_the_others() -> None:
    q, k, v = qkv()
    lowered = lower(pe.Rotary(DIM), Positions.build(1, LENGTH, causal=True), keys_prerotated=True)
    assert lowered.form.k_waves[0].shape[-2] == 1
    with pytest.raises(
        PositionsError, match="pass cache=, or lower them without keys_prerotated=True"
    ):
        attend(q[:, :, -1:], k, v, lowered)
    cache = Cache("raw")
    attend(*(x[:, :, :-1] for x in (q, k, v)), pe.Rotary(DIM), causal=True, cache=cache)
    with pytest.raises(
        CacheError, match="keeps none rotated: lower them without keys_prerotated=True"
    ):
        attend(*(x[:, :, -1:] for x in (q, k, v)), lowered, cache=cache)
    # Where nothing is held, the new keys are all there are.
    first = lower(pe.Rotary(DIM), Positions.build(LENGTH, causal=True), keys_prerotated=True)
    assert not first.keys_prerotated


def test_other_dtypes_are_refused() -> None:
    q, k, v = qkv()
    cache = Cache()
    attend(q, k, v, causal=True, cache=cache)
    with pytest.raises(CacheError, match=r"keys of shape .*float64 on cpu, .*torch.float32 on cpu"):
        attend(*(x[:, :, :1].float() for x in (q, k, v)), causal=True, cache=cache)
    with pytest.raises(CacheError, match=r"values of shape .*float64 on cpu"):
        attend(q[:, :, :1], k[:, :, :1], v[:, :, :1].float(), causal=True, cache=cache)
    assert len(cache) == LENGTH


def test_a_prefix_comes_whole() -> None:
    q, k, v = qkv()
    parts = [pe.Rotary(DIM), t.Mask(Prefix(4))]
    expected = attend(q, k, v, parts, causal=True)
    for chunks in ((4, 1, 4), (6, 3)):
        torch.testing.assert_close(decoded(q, k, v, parts, Cache(), chunks), expected)
    with pytest.raises(CacheError, match="only a part of a prefix of 4 tokens"):
        decoded(q, k, v, parts, Cache(), (3, 6))


def test_documents_go_on_as_causal_as_they_began() -> None:
    q, k, v = torch.randn(3, 1, 2, 6, 8).unbind()
    encoding = [pe.Rotary(8), pe.Documents(torch.zeros(6, dtype=torch.int64))]
    expected, cache = pe.attend(q, k, v, encoding[0], causal=True), pe.Cache()
    begun = [pe.Rotary(8), pe.Documents(torch.zeros(3, dtype=torch.int64))]
    pe.attend(q[:, :, :3], k[:, :, :3], v[:, :, :3], begun, causal=True, cache=cache)
    out = pe.attend(q[:, :, 3:], k[:, :, 3:], v[:, :, 3:], encoding, cache=cache)
    torch.testing.assert_close(out, expected[:, :, 3:])
