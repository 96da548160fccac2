"""diagnose names what is wrong around scores, positions and embeddings."""

import copy
import math
from dataclasses import replace

import pytest
import torch

import posenc as pe
from posenc.analysis.diagnose import diagnose
from posenc.analysis.probe_context import context_for, sizes_for
from posenc.testing.fixtures import attends, copy_of, qkv
from tests.support.diagnosed import (
    DTYPES,
    SLOPES,
    B,
    D,
    G,
    H,
    T,
    alibi_bias,
    attention,
    both,
    elsewhere,
    like,
    raw,
    without,
)

# What is wrong, how, and whether ours is causal.
SCORES: list[tuple[str, dict, bool]] = [
    ("scale", {"scale": 1.0}, True),
    ("scale", {"scale": 1 / D}, True),
    ("scale", {"scale": 0.0731}, False),
    ("causal mask", {"diagonal": None}, True),
    ("causal mask", {"diagonal": 1}, True),
    ("causal mask", {"diagonal": -1}, True),
    ("causal mask", {"diagonal": 0}, False),
    ("key heads tiled", {"tiled": True}, True),
    ("key heads tiled", {"tiled": True}, False),
    ("scale placement", {"before": True}, True),
    ("sign of the bias", {"bias": -alibi_bias(SLOPES)}, True),
    ("bias missing", {"bias": 0.0}, True),
    ("bias added twice", {"bias": 2 * alibi_bias(SLOPES)}, True),
    ("size of the bias", {"bias": 0.7 * alibi_bias(SLOPES)}, True),
    ("bias of keys ahead", {"bias": alibi_bias(SLOPES, future=-1.0)}, False),
    ("bias of keys ahead", {"bias": alibi_bias(SLOPES, future=0.0)}, False),
    ("order of heads", {"bias": alibi_bias(SLOPES[::-1])}, True),
    ("slopes", {"bias": alibi_bias([2 ** (-8 * h / H) for h in range(1, H + 1)])}, True),
    ("slopes", {"bias": alibi_bias([2 ** (-8 * h / H) for h in range(H)])}, True),
    ("slopes", {"bias": alibi_bias(sorted(SLOPES, reverse=True))}, False),
]


@pytest.mark.parametrize("which", range(len(SCORES)))
def test_wrong_attention_with_alibi_is_named(which: int) -> None:
    cause, wrong, causal = SCORES[which]
    dtype = DTYPES[which % 2]
    q, k, v = raw(dtype)
    encoding = pe.ALiBi(H)
    right = {"bias": alibi_bias(SLOPES), "diagonal": 0 if causal else None}
    scores, output = attention(q, k, v, **right | wrong, dtype=dtype)
    ours = both(encoding, q, k, v, causal=causal)
    given = {"q": q, "k": k, "causal": causal}
    for one, two, values in ((ours[0], scores, None), (ours[1], output, v)):
        diagnosis = diagnose(one, two, encoding, v=values, **given)
        assert diagnosis.cause == cause, diagnosis


def test_biases_counted_from_the_first_key_differ_by_what_softmax_removes() -> None:
    """As in BLOOM, MPT and Falcon: slope times key position."""
    q, k, v = raw()
    key_only = torch.tensor(SLOPES)[:, None, None].double() * torch.arange(T)
    scores, output = attention(q, k, v, bias=key_only)
    encoding = pe.ALiBi(H)
    ours = both(encoding, q, k, v, causal=True)
    diagnosis = diagnose(ours[0], scores, encoding, q=q, k=k, causal=True)
    assert diagnosis.cause == "constant per row"
    assert diagnose(ours[1], output.float(), encoding, q=q, k=k, v=v, causal=True).agree


def test_wrong_scale_and_buckets_of_t5_are_named() -> None:
    q, k, v = raw()
    t5 = pe.T5Bias(H, buckets=8, max_distance=20)
    torch.nn.init.normal_(t5.weight, generator=torch.Generator().manual_seed(1))
    ours = both(t5, q, k, v, causal=True, scale=1.0)
    others = {
        "scale": both(t5, q, k, v, causal=True),
        "scale placement": both([t5, pe.Temperature("yarn", factor=1.0)], q, k, v, causal=True),
        "buckets": both(like(t5, max_distance=64), q, k, v, causal=True, scale=1.0),
    }
    # x-transformers multiplies the bias by sqrt(d), and scales the content.
    multiplied = like(t5)
    multiplied.weight.data *= D**0.5
    others["scale placement"] = both(multiplied, q, k, v, causal=True, scale=1.0)
    for cause, theirs in others.items():
        for one, two, values in zip(ours, theirs, (None, v), strict=True):
            diagnosis = diagnose(one, two, t5, q=q, k=k, v=values, causal=True, scale=1.0)
            assert diagnosis.cause == cause, diagnosis


def test_order_of_key_heads_and_exchanges_are_named_from_results_alone() -> None:
    q, k, v = raw()
    turned_q, turned_k = pe.rotate(q, k, pe.Rotary(D))
    share = H // G
    repeated, tiled = turned_k.repeat_interleave(share, 1), turned_k.repeat(1, share, 1, 1)
    ours = (turned_q, repeated)
    assert diagnose(ours, (turned_q, tiled)).cause == "key heads tiled"
    assert diagnose(ours, ours[::-1]).cause == "q and k swapped"
    assert diagnose(ours, (1.5 * turned_q, 1.5 * repeated)).cause == "constant factor"
    assert (
        "1.5 times our q and 1 times our k" in diagnose(ours, (1.5 * turned_q, repeated)).evidence
    )
    even_first = torch.arange(D).view(-1, 2).T.flatten()
    assert diagnose(ours, tuple(x[..., even_first] for x in ours)).cause == "order of dimensions"
    heads = [3, 1, 0, 2, 5, 4]
    diagnosis = diagnose(pe.attend(q, k, v), pe.attend(q, k, v)[:, heads])
    assert diagnosis.cause == "order of heads"
    assert str(heads) in diagnosis.evidence
    later = pe.attend(q, k, v).roll(1, dims=2)
    assert diagnose(pe.attend(q, k, v), later, kind="output").cause == "tokens shifted"
    s = pe.scores(q, k.repeat_interleave(2, 1))
    assert diagnose(s, s.mT, kind="scores").cause == "scores transposed"


def test_queries_taken_for_keys_are_named() -> None:
    q, _, v = raw()
    k, rope, v = q.flip(1) + 1, pe.Rotary(D), v.repeat_interleave(2, 1)
    for kind in range(2):
        ours, theirs = (
            both(rope, q, k, v, causal=True)[kind],
            both(rope, k, q, v, causal=True)[kind],
        )
        values = v if kind else None
        diagnosis = diagnose(ours, theirs, rope, q=q, k=k, v=values, causal=True)
        assert diagnosis.cause == "q and k swapped"


def test_positions_of_padding_packing_and_decoding_are_named() -> None:
    q, k, v = raw()
    rope, mask = pe.Rotary(D), torch.ones(B, T, dtype=torch.bool)
    mask[1, :4] = False
    padded = pe.Positions.build(attention_mask=mask, causal=True)
    counted = elsewhere(padded, torch.arange(T), torch.arange(T))
    packed = pe.Positions.build(lengths=[4, 7], causal=True)
    through = elsewhere(packed, torch.arange(T), torch.arange(T))
    decoding = pe.Positions.build(3, T, causal=True)
    first = elsewhere(decoding, torch.arange(3), decoding.keys.position)
    cases = [
        ("padding counted", q, padded, counted),
        ("start of positions", q, packed, through),
        ("start of positions", q[:, :, -3:], decoding, first),
    ]
    for cause, queries, right, wrong in cases:
        ours, theirs = (pe.rotate(queries, k, rope, positions=at) for at in (right, wrong))
        diagnosis = diagnose(ours, theirs, rope, q=queries, k=k, positions=right)
        assert diagnosis.cause == cause, diagnosis
    # What is computed for padding means nothing, and is not compared.
    ours = both(rope, q, k, v, positions=padded)
    seen = both(rope, q, k, v, positions=without(padded, "valid"))
    zeroed = (x.masked_fill(~mask[:, None, :, None], 0.0) for x in (k, v))
    cleared = both(rope, q, *zeroed, positions=without(padded, "valid"))
    other = both(rope, q, k, v, positions=without(packed, "document"))
    hidden = both(rope, q, k, v, positions=packed)
    aligned = replace(decoding, queries=replace(decoding.queries, order=torch.arange(3)))
    top = both(rope, q[:, :, -3:], k, v, positions=aligned)
    last = both(rope, q[:, :, -3:], k, v, positions=decoding)
    for kind, values in enumerate((None, v)):
        given = {"k": k, "v": values}
        diagnosis = diagnose(ours[kind], seen[kind], rope, q=q, positions=padded, **given)
        assert diagnosis.cause == "padding", diagnosis
        diagnosis = diagnose(ours[kind], cleared[kind], rope, q=q, positions=padded, **given)
        assert diagnosis.cause == "padding", diagnosis
        assert "whose keys and values are zero" in diagnosis.evidence
        diagnosis = diagnose(hidden[kind], other[kind], rope, q=q, positions=packed, **given)
        assert diagnosis.cause == "documents", diagnosis
        queries = q[:, :, -3:]
        diagnosis = diagnose(last[kind], top[kind], rope, q=queries, positions=decoding, **given)
        assert diagnosis.cause == "causal mask", diagnosis
        assert "aligns the causal mask at the first key" in diagnosis.evidence
    garbage = ours[1].clone()
    garbage[1, :, :4] = 7.0
    assert diagnose(ours[1], garbage, rope, q=q, k=k, v=v, positions=padded).agree


def test_a_window_off_by_one_is_named() -> None:
    q, k, v = raw()
    ours, theirs = (both([pe.Rotary(D), pe.SlidingWindow(w)], q, k, v, causal=True) for w in (4, 5))
    parts = [pe.Rotary(D), pe.SlidingWindow(4)]
    for one, two, values in zip(ours, theirs, (None, v), strict=True):
        diagnosis = diagnose(one, two, parts, q=q, k=k, v=values, causal=True)
        assert diagnosis.cause == "width of the window"
        assert "wider" in diagnosis.evidence


def test_embeddings_that_start_elsewhere_or_are_scaled_are_named() -> None:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(B, T, 24, generator=generator)
    learned, sine = pe.Learned(24, max_length=64), pe.Sinusoidal(24)
    torch.nn.init.normal_(learned.weight, generator=generator)
    plain, after = (pe.Positions.build(ids=torch.arange(T) + n) for n in (0, 2))
    root = 24**0.5
    cases = [
        # RoBERTa's first token is at 2.
        ("offset", learned, learned.embed(x, after)),
        ("offset", sine, sine.embed(x, after)),
        ("offset", sine, sine.embed(x, torch.arange(T) + 9)),
        ("scale", sine, sine.embed(x * root, plain)),
        ("layout", sine, pe.Sinusoidal(24, layout="half").embed(x, plain)),
        ("merge", sine, pe.Sinusoidal(24, merge="multiply").embed(x, plain)),
        ("base", sine, pe.Sinusoidal(24, base=500.0).embed(x, plain)),
        ("position missing", sine, x),
    ]
    for cause, encoding, theirs in cases:
        diagnosis = diagnose(encoding.embed(x, plain), theirs, encoding, x=x)
        assert diagnosis.cause == cause, diagnosis


def test_a_scale_is_named_where_scores_differ_by_one_number() -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D)
    ours = pe.scores(q, k, rope)
    diagnosis = diagnose(ours, pe.scores(q, k, rope, scale=1 / D), rope, q=q, k=k)
    assert diagnosis.cause == "scale"
    assert "1/sqrt(d) twice" in diagnosis.evidence
    assert diagnose(ours, 1.25 * ours, rope, q=q, k=k).cause == "constant factor"


@pytest.mark.parametrize("other", [0.5**0.5, 0.3, math.pi])
def test_a_number_is_fitted_as_far_as_float64_tells(other: float) -> None:
    """A number that is nearly right left a rest, which a second cause that changes nothing took."""
    q, k, v = raw(torch.float64)
    encoding = pe.PoPE(D, heads=H)
    theirs = pe.attend(q, k, v, encoding, causal=True, scale=other * D**-0.5)
    ours = pe.attend(q, k, v, encoding, causal=True)
    diagnosis = diagnose(ours, theirs, encoding, q=q, k=k, v=v, causal=True)
    assert diagnosis.cause == "scale"
    assert diagnosis.candidates[0].fits, diagnosis
    assert "That explains the whole difference" in diagnosis.evidence


@pytest.mark.parametrize("name", sorted(pe.encodings()))
def test_every_member_agrees_with_itself_and_one_fault_is_named(name: str) -> None:
    """Also those that read the layer, whose masks hide, or that change the embeddings."""
    encoding = copy_of(next(pe.encodings()[name].examples()))

    if not attends(encoding):
        x = torch.randn(2, 9, sizes_for(encoding).model_dim, dtype=torch.float64)
        ours = encoding.embed(x, None).detach()
        low = copy.deepcopy(encoding).float().embed(x.float(), None).detach()
        assert diagnose(ours, low, encoding, x=x).agree
        at = pe.Positions.build(ids=torch.arange(9) + 2)
        assert diagnose(ours, encoding.embed(x, at).detach(), encoding, x=x).cause == "offset"
        return
    q, k, v = qkv(encoding)
    given = {"causal": True, "context": context_for(encoding)}
    ours, scaled = (both(encoding, q, k, v, **given, scale=s) for s in (None, 1.0))
    lower = copy.deepcopy(encoding).float()
    low_context = context_for(encoding, dtype=torch.float32)
    low = both(lower, q.float(), k.float(), v.float(), causal=True, context=low_context)
    for one, same, other, values in zip(ours, low, scaled, (None, v), strict=True):
        diagnosis = diagnose(one.detach(), same.detach(), encoding, q=q, k=k, v=values, **given)
        assert diagnosis.agree, diagnosis
        diagnosis = diagnose(one.detach(), other.detach(), encoding, q=q, k=k, v=values, **given)
        assert diagnosis.cause == "scale", diagnosis
