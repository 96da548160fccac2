"""Decoding through a cache equals the full forward, or says why it cannot."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import posenc as pe
from posenc import (
    Cache,
    CacheError,
    Context,
    Documents,
    Encoding,
    Positions,
    PositionsError,
    Tags,
    Transformer,
    attend,
    lower,
)
from posenc import terms as t
from tests.support.oracles import drawing

LENGTH, HEADS, KEY_HEADS, DIM = 9, 6, 3, 8
CHUNKS = [(4, 1, 1, 3), (1,) * LENGTH, (LENGTH,), (2, 5, 2)]
POLICIES = ["rotated", "raw"]


class Stretched(Encoding):
    """Frequencies that depend on the length, as DynamicNTK's do."""

    tags = Tags(length_dependent=True)
    head_dim = DIM

    def lower(self, positions, context=None, *, dtype=torch.float32):
        base = 100.0 * positions.bound
        frequency = base ** (-torch.arange(0, DIM, 2, dtype=torch.float64) / DIM)
        angles = [
            at.double().view(-1, 1, at.shape[-1], 1) * frequency
            for at in (positions.queries.position, positions.keys.position)
        ]
        return (t.Rotate(*angles, "half"),)


class Gated(Encoding):
    """A forget gate: each token takes the log of its gate off everything before it."""

    tags = Tags(needs_context=True, causal_only=True)

    def __init__(self, model_dim: int, heads: int) -> None:
        super().__init__()
        self.model_dim, self.heads = model_dim, heads
        self.gate = nn.Linear(model_dim, heads)

    def payload(self, x: Tensor) -> Tensor:
        return F.logsigmoid(self.gate(x)).transpose(1, 2)

    def lower(self, positions, context: Context, *, dtype=torch.float32):
        total = context.payload.double().cumsum(-1)
        return (t.Offset(total[..., -positions.q_len :], -total),)


class Terms(Encoding):
    """Terms made from positions by a function."""

    def __init__(self, make: Callable[[Positions], Sequence[t.Term]]) -> None:
        super().__init__()
        self.make = make

    def lower(self, positions, context=None, *, dtype=torch.float32):
        return tuple(self.make(positions))


def angles(positions: Positions, heads: int = 1) -> tuple[Tensor, Tensor]:
    frequency = torch.linspace(0.1, 1.0, heads * 2, dtype=torch.float64).view(heads, 1, 2)
    sides = (positions.queries.position, positions.keys.position)
    return tuple(at.double().view(-1, 1, at.shape[-1], 1) * frequency for at in sides)


def growing(positions: Positions) -> list[t.Term]:
    q, k = angles(positions)
    return [t.Rotate(q, k, "half", q_log_scale=-q, k_log_scale=k)]


def zoned(positions: Positions) -> list[t.Term]:
    q, k = angles(positions)
    return [t.Zones(t.Rotate(q, k, "half"), t.Rotate(q / 4, k / 4, "half"), 3)]


KEYS = t.GatherTable(drawing(1)(HEADS, 5, DIM), 2, "k", saturates=True)

ENCODINGS: dict[str, Any] = {
    "none": pe.NoPE(),
    "rotary": pe.Rotary(DIM),
    "rotary slice": pe.Rotary(DIM, rotary_dim=4, layout="interleaved"),
    "rotary, window, sink": [pe.Rotary(DIM), pe.SlidingWindow(3), pe.Sinks(1)],
    "alibi": pe.ALiBi(HEADS),
    "t5": pe.T5Bias(HEADS, buckets=4, max_distance=4).double(),
    "shaw": pe.Shaw(DIM, clip=2).double(),
    "rotary and shaw": [pe.Rotary(DIM), pe.Shaw(DIM, clip=2).double()],
    "keys": [KEYS],
}
# These read keys that were not turned.
RAW_ONLY: dict[str, Any] = {
    "rotary and keys": [pe.Rotary(DIM), KEYS],
    "zones": Terms(zoned),
    "growing": Terms(growing),
    "angles per query head": Terms(lambda at: [t.Rotate(*angles(at, HEADS), "half")]),
}


def qkv(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    draw = drawing(2)
    shapes = ((HEADS, DIM), (KEY_HEADS, DIM), (KEY_HEADS, DIM))
    return tuple(draw(2, heads, LENGTH, dim).to(dtype) for heads, dim in shapes)


def spans(chunks: Sequence[int]) -> Iterator[slice]:
    at = 0
    for size in chunks:
        yield slice(at, at + size)
        at += size


def decoded(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Any,
    cache: Cache,
    chunks: Sequence[int],
    place: Callable[[int, int], Positions] | None = None,
    backend: str = "auto",
) -> Tensor:
    """The output of all tokens, given to a cache chunk by chunk."""
    out = []
    for span in spans(chunks):
        where: dict[str, Any] = {"causal": True}
        if place is not None:
            where = {"positions": place(span.stop - span.start, span.stop)}
        new = [x[:, :, span] for x in (q, k, v)]
        out.append(attend(*new, encoding, cache=cache, backend=backend, **where))
        assert len(cache) == span.stop
    return torch.cat(out, dim=2)


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


def test_two_payloads_are_one_too_many() -> None:
    (q, k, v), x = qkv(), drawing(3)(2, LENGTH, 5)
    gates = [Gated(5, HEADS).double(), Gated(5, HEADS).double()]
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


def model(encoding: Any, **settings: Any) -> Transformer:
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "dim": 48, "depth": 3, "heads": HEADS, "kv_heads": KEY_HEADS}
    return Transformer(**sizes, encoding=encoding, **settings).double().eval()


MODELS: dict[str, Callable[[], Any]] = {
    "sinusoidal": lambda: pe.Sinusoidal(48),
    "learned, beside": lambda: pe.Learned(4, max_length=LENGTH, merge="concat"),
    "rotary and window": lambda: [pe.Rotary(DIM), pe.SlidingWindow(4)],
    "learned and t5": lambda: [pe.Learned(48, max_length=LENGTH), pe.T5Bias(HEADS, 4, 4)],
    "shaw": lambda: pe.Shaw(DIM, clip=2),
    "one per layer": lambda: lambda layer: pe.Rotary(DIM, base=10.0 ** (layer + 1)),
    "gate": lambda: Gated(48, HEADS),
    "gate and rotary": lambda: [pe.Rotary(DIM), Gated(48, HEADS)],
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", MODELS)
def test_a_whole_model_decodes(name: str, policy: str) -> None:
    transformer, tokens = model(MODELS[name]()), torch.arange(2 * LENGTH).view(2, -1) * 7 % 11
    mask = torch.ones(2, LENGTH, dtype=torch.bool)
    mask[1, :2] = False
    for real in (None, mask):
        whole = None
        if real is not None:
            whole = Positions.build(attention_mask=real, causal=True)
        expected = transformer(tokens, whole)
        for chunks in ((4, 1, 1, 3), (1,) * LENGTH):
            caches = [Cache(policy) for _ in range(3)]
            steps = []
            for span in spans(chunks):
                positions = None
                if real is not None:
                    positions = Positions.build(
                        span.stop - span.start,
                        attention_mask=real[:, : span.stop],
                        causal=True,
                        k_len=span.stop,
                    )
                steps.append(transformer(tokens[:, span], positions, caches))
            got = torch.cat(steps, dim=1)
            kept = slice(None) if real is None else real
            torch.testing.assert_close(got[kept], expected[kept])


def test_a_model_with_growing_angles_needs_the_length() -> None:
    transformer, tokens = model(Stretched()), torch.arange(LENGTH)[None] % 11
    with pytest.raises(CacheError, match="depend on the length"):
        transformer(tokens, caches=[Cache() for _ in range(3)])
    caches = [Cache(length=LENGTH) for _ in range(3)]
    steps = [transformer(tokens[:, span], caches=caches) for span in spans((4, 1, 1, 3))]
    torch.testing.assert_close(torch.cat(steps, dim=1), transformer(tokens))


def test_a_model_wants_one_cache_per_layer() -> None:
    with pytest.raises(pe.ShapeError, match=r"3 layers, but 2 caches.*one Cache per layer"):
        model(pe.NoPE())(torch.zeros(1, 2).long(), caches=[Cache(), Cache()])


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
    parts = [pe.Rotary(DIM), t.Mask(t.Prefix(4))]
    expected = attend(q, k, v, parts, causal=True)
    for chunks in ((4, 1, 4), (6, 3)):
        torch.testing.assert_close(decoded(q, k, v, parts, Cache(), chunks), expected)
    with pytest.raises(CacheError, match="only a part of a prefix of 4 tokens"):
        decoded(q, k, v, parts, Cache(), (3, 6))


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


class TestGrowingBuffer:
    """Tokens are written behind those that are held, and never over what a tensor shows."""

    def steps(self, cache: Cache, count: int = 3) -> list[Tensor]:
        q, k, v = qkv()
        with torch.no_grad():
            return [
                attend(*(x[:, :, at : at + 1] for x in (q, k, v)), causal=True, cache=cache)
                for at in range(count)
            ]

    def test_a_step_copies_nothing_that_is_held(self) -> None:
        cache = Cache()
        self.steps(cache)
        k = cache.k
        self.steps(cache, 1)
        assert cache.k.data_ptr() == k.data_ptr()
        assert (k.shape[2], cache.k.shape[2]) == (3, 4)

    def test_the_length_bounds_it(self) -> None:
        cache = Cache(length=5)
        self.steps(cache)
        assert cache.buffers[0].memory.shape[2] == 5

    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
    def test_copies_go_on_apart(self, duplicate: Callable[[Cache], Cache]) -> None:
        cache, (_, k, v) = Cache(), qkv()
        self.steps(cache)
        other = duplicate(cache)
        for one, at in ((cache, 3), (other, 4)):
            with torch.no_grad():
                new = (x[:, :, at : at + 1] for x in (k, v))
                attend(k[:, :1, at : at + 1].repeat(1, HEADS, 1, 1), *new, causal=True, cache=one)
        for one, at in ((cache, 3), (other, 4)):
            assert torch.equal(one.k, k[:, :, [0, 1, 2, at]])
            assert torch.equal(one.v, v[:, :, [0, 1, 2, at]])

    def test_a_cache_that_was_put_back_overwrites_nothing(self) -> None:
        cache, (q, k, v) = Cache(), qkv()
        self.steps(cache)
        before, state = cache.k.clone(), cache.saved()
        self.steps(cache, 2)
        later, shown = cache.k, cache.k.clone()
        cache.restore(state)
        with torch.no_grad():
            attend(*(x[:, :, -1:] for x in (q, k, v)), causal=True, cache=cache)
        assert torch.equal(cache.k[:, :, :3], before)
        assert torch.equal(later, shown)

    def test_what_a_gradient_needs_is_not_overwritten(self) -> None:
        cache, (q, k, v) = Cache(), qkv()
        self.steps(cache)
        q = q[:, :, -1:].clone().requires_grad_()
        out = attend(q, k[:, :, 3:4], v[:, :, 3:4], causal=True, cache=cache)
        expected = torch.autograd.grad(
            attend(q, k[:, :, :4], v[:, :, :4], causal=True).square().sum(), q
        )
        self.steps(cache, 2)
        torch.testing.assert_close(torch.autograd.grad(out.square().sum(), q), expected)

    def test_inference_mode_may_begin_and_end(self) -> None:
        cache, (q, k, v) = Cache(), qkv()
        got = []
        for at, mode in enumerate((True, True, False, True, False, False)):
            with torch.inference_mode(mode), torch.no_grad():
                new = (x[:, :, at : at + 1] for x in (q, k, v))
                got.append(attend(*new, causal=True, cache=cache))
        whole = attend(q, k, v, causal=True)[:, :, : len(got)]
        torch.testing.assert_close(torch.cat(got, dim=2), whole)
