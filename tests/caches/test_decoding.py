"""Decoding through a cache equals the full forward, or says why it cannot."""

from collections.abc import Callable

import pytest
import torch
from torch.utils import _pytree as pytree

import posenc as pe
from posenc import (
    Cache,
    CacheError,
    Context,
    Documents,
    Positions,
    attend,
    lower,
)
from posenc import terms as t
from tests.support.decoding import (
    CHUNKS,
    DIM,
    ENCODINGS,
    HEADS,
    LENGTH,
    POLICIES,
    RAW_ONLY,
    Gated,
    Stretched,
    decoded,
    qkv,
    spans,
)
from tests.support.oracles import drawing


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ENCODINGS)
def test_decoding_equals_the_full_forward(name: str, policy: str) -> None:
    q, k, v = qkv()
    expected = attend(q, k, v, ENCODINGS[name], causal=True, backend="reference")
    for chunks in CHUNKS:
        actual = decoded(q, k, v, ENCODINGS[name], Cache(policy), chunks)
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("name", RAW_ONLY)
def test_what_reads_raw_keys_decodes_with_raw_ones(name: str) -> None:
    q, k, v = qkv()
    encoding = RAW_ONLY[name]
    expected = attend(q, k, v, encoding, causal=True)
    for chunks in CHUNKS:
        torch.testing.assert_close(decoded(q, k, v, encoding, Cache("raw"), chunks), expected)
    cache = Cache("rotated")
    with pytest.raises(CacheError, match=r'use Cache\(policy="raw"\)'):
        attend(q, k, v, encoding, causal=True, cache=cache)
    assert len(cache) == 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ENCODINGS)
def test_left_padding_while_decoding(name: str, policy: str) -> None:
    q, k, v = qkv()
    mask = torch.ones(2, LENGTH, dtype=torch.bool)
    mask[0, :3] = False

    def place(new: int, total: int) -> Positions:
        return Positions.build(new, total, attention_mask=mask[:, :total], causal=True)

    encoding = ENCODINGS[name]
    expected = attend(q, k, v, encoding, positions=place(LENGTH, LENGTH))
    for chunks in CHUNKS:
        actual = decoded(q, k, v, encoding, Cache(policy), chunks, place)
        real = [x.transpose(1, 2)[mask] for x in (actual, expected)]
        torch.testing.assert_close(*real)
    alone = attend(*(x[:1, :, 3:] for x in (q, k, v)), encoding, causal=True)
    torch.testing.assert_close(expected[:1, :, 3:], alone)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ENCODINGS)
def test_packed_documents_while_decoding(name: str, policy: str) -> None:
    q, k, v = qkv()
    ids = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2])

    def place(new: int, total: int) -> Positions:
        return Positions.build(new, total, documents=ids[:total], causal=True)

    expected = attend(q, k, v, ENCODINGS[name], positions=place(LENGTH, LENGTH))
    actual = decoded(q, k, v, ENCODINGS[name], Cache(policy), (4, 1, 4), place)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_low_precision_is_off_by_its_rounding(dtype: torch.dtype, policy: str) -> None:
    q, k, v = qkv(dtype)
    wide = [x.double() for x in (q, k, v)]
    bound = 8 * torch.finfo(dtype).eps
    for name in ("rotary", "alibi", "rotary slice"):
        expected = attend(*wide, ENCODINGS[name], causal=True)
        actual = decoded(q, k, v, ENCODINGS[name], Cache(policy), (4, 1, 4))
        assert actual.dtype == dtype
        torch.testing.assert_close(actual.double(), expected, rtol=bound, atol=bound)


def test_lowered_terms_decode() -> None:
    q, k, v = qkv()
    expected = attend(q, k, v, pe.Rotary(DIM), causal=True)
    for policy in POLICIES:
        cache, out = Cache(policy), []
        for span in spans((4, 1, 4)):
            positions = Positions.build(span.stop - span.start, span.stop, causal=True)
            lowered = lower(pe.Rotary(DIM), positions)
            out.append(attend(*(x[:, :, span] for x in (q, k, v)), lowered, cache=cache))
        torch.testing.assert_close(torch.cat(out, dim=2), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
def test_angles_that_depend_on_the_length_need_it(policy: str) -> None:
    q, k, v = qkv()
    with pytest.raises(CacheError, match=r"Stretched\(\) turns by angles that depend.*length="):
        attend(q, k, v, Stretched(), causal=True, cache=Cache(policy))
    expected = attend(q, k, v, Stretched(), causal=True)
    for chunks in CHUNKS:
        actual = decoded(q, k, v, Stretched(), Cache(policy, length=LENGTH), chunks)
        torch.testing.assert_close(actual, expected)
    ids = torch.zeros(LENGTH, dtype=torch.long)
    expected = attend(q, k, v, [Stretched(), Documents(ids)], causal=True)
    cache, out = Cache(policy, length=LENGTH), []
    for span in spans((4, 1, 4)):
        parts = [Stretched(), Documents(ids[: span.stop])]
        new = (x[:, :, span] for x in (q, k, v))
        out.append(attend(*new, parts, causal=True, cache=cache))
    torch.testing.assert_close(torch.cat(out, dim=2), expected)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("with_rotary", [True, False])
def test_a_gate_decodes_with_its_payload(policy: str, with_rotary: bool) -> None:
    draw, (q, k, v) = drawing(3), qkv()
    x, gate = draw(2, LENGTH, 5), Gated(5, HEADS).double()
    encoding = [pe.Rotary(DIM), gate] if with_rotary else gate
    expected = attend(q, k, v, encoding, causal=True, context=Context(x))

    # The gates of tokens after j, up to i itself: l = j + 1 .. i.
    logs = gate.payload(x)
    content = pe.scores(q, k, pe.Rotary(DIM) if with_rotary else None, causal=True)
    for i in range(LENGTH):
        for j in range(i):
            content[:, :, i, j] += logs[:, :, j + 1 : i + 1].sum(-1)
    by_hand = content.softmax(-1) @ v.repeat_interleave(2, dim=1)
    torch.testing.assert_close(expected, by_hand)

    for chunks in CHUNKS:
        cache, out = Cache(policy), []
        for span in spans(chunks):
            new = (y[:, :, span] for y in (q, k, v))
            context = Context(x[:, span])
            out.append(attend(*new, encoding, causal=True, context=context, cache=cache))
        torch.testing.assert_close(torch.cat(out, dim=2), expected)
        assert cache.payload.shape == (2, HEADS, LENGTH)


class ByOrder(pe.Rotary):
    """RoPE by the place of a token in its half dozen, and not by its coordinate."""

    def lower(self, positions, context=None, *, dtype=torch.float32):
        q, k = (self.angles(order % 6) for order in positions.orders())
        return (t.Rotate(k if len(q) == len(k) else q, k, self.layout),)


@pytest.mark.parametrize("cache", [Cache, lambda: pe.StaticCache(LENGTH)])
def test_a_rotation_that_reads_orders_decodes(cache: Callable[[], Cache]) -> None:
    (q, k, v), encoding = qkv(), ByOrder(DIM)
    expected = attend(q, k, v, encoding, causal=True)
    for chunks in CHUNKS:
        torch.testing.assert_close(decoded(q, k, v, encoding, cache(), chunks), expected)


ROTATIONS = [
    x
    for kind in pe.encodings().values()
    if kind.family == "rotary" and not kind.tags.needs_context
    for x in kind.examples()
]


@pytest.mark.parametrize("encoding", ROTATIONS, ids=repr)
def test_no_rotation_of_posenc_reads_orders(encoding: pe.Encoding) -> None:
    """So that a cache need not make them for it."""
    at, axes = torch.arange(4), getattr(encoding, "axes", 1)
    at = at if axes == 1 else at[None, :, None].expand(1, 4, axes)
    here, there = (
        encoding.lower(pe.Positions(x, x, causal=True, extent=16))
        for x in (pe.Tokens(at), pe.Tokens(at, order=torch.arange(4) + 100))
    )
    leaves = [x for x in pytree.tree_leaves(here) if isinstance(x, torch.Tensor)]
    others = [x for x in pytree.tree_leaves(there) if isinstance(x, torch.Tensor)]
    assert leaves
    assert all(map(torch.equal, leaves, others))


class Told(Gated):
    """A rotation by the sum of what tokens tell, as strict about it as those of posenc."""

    family = "rotary"

    def lower(self, positions, context: Context, *, dtype=torch.float32):
        assert context.payload.shape[-1] == positions.k_len
        angle = context.payload.double().cumsum(-1).mT[:, None]
        return (t.Rotate(angle[..., -positions.q_len :, :], angle, "half"),)


def test_a_rotation_that_reads_a_payload_is_asked_for_all_keys() -> None:
    (q, k, v), x = qkv(), drawing(3)(2, LENGTH, 5)
    encoding = Told(5, DIM // 2).double()
    encoding.heads = None
    expected = attend(q, k, v, encoding, causal=True, context=Context(x))
    for policy in POLICIES:
        cache, out = Cache(policy), []
        for span in spans((4, 1, 4)):
            new, context = (y[:, :, span] for y in (q, k, v)), Context(x[:, span])
            out.append(attend(*new, encoding, causal=True, context=context, cache=cache))
        torch.testing.assert_close(torch.cat(out, dim=2), expected)
