"""diagnose names what is wrong with implementations that are wrong on purpose."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc.analysis.diagnose import Diagnosis, diagnose
from posenc.analysis.probe_context import context_for, sizes_for
from posenc.errors import ShapeError, UnsupportedError
from posenc.testing.fixtures import attends, copy_of, qkv

B, H, G, T, D = 2, 6, 3, 11, 20
DTYPES = [torch.float32, torch.bfloat16]


def raw(dtype: torch.dtype = torch.float32, length: int = T) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    shapes = [(B, H, length, D), (B, G, length, D), (B, G, length, D)]
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)


@dataclass(frozen=True)
class Wrong:
    """A rotation written out by itself, with one thing after another to get wrong."""

    base: float = 10_000.0
    layout: str = "half"
    width: int = D
    counted: int | None = None
    start: int = 0
    sign: tuple[float, float] = (1.0, 1.0)
    first: int | Tensor = 0
    factor: float = 1.0
    minus: bool = True
    tables: str | None = None
    position_dtype: torch.dtype = torch.float64
    frequency_dtype: torch.dtype = torch.float64
    angle_dtype: torch.dtype = torch.float64
    table_dtype: torch.dtype = torch.float64

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        turned = zip((q, k), self.sign, strict=True)
        return tuple(self.turn(x, sign).to(x.dtype) for x, sign in turned)

    def turn(self, x: Tensor, sign: float) -> Tensor:
        x, pairs = x.double(), self.width // 2
        at = (torch.arange(x.shape[-2]) + self.first).to(self.position_dtype).double() * self.factor
        exponent = torch.arange(pairs).double() / (self.counted or self.width) * 2
        theta = (self.base**-exponent).to(self.frequency_dtype).double()
        angle = (sign * at[..., None] * theta).to(self.angle_dtype).double()
        cos, sin = (wave.to(self.table_dtype).double() for wave in (angle.cos(), angle.sin()))
        if cos.ndim == 3:
            cos, sin = cos[:, None], sin[:, None]
        half, interleaved = (
            torch.arange(2 * pairs).view(2, -1).T,
            torch.arange(2 * pairs).view(-1, 2),
        )
        pair_of = half if self.layout == "half" else interleaved
        pair_of = pair_of + self.start
        cos_of, sin_of = torch.ones(x.shape), torch.zeros(x.shape)
        cos_of, sin_of = cos_of.double(), sin_of.double()
        laid_out = {"half": half, "interleaved": interleaved, None: pair_of - self.start}
        for wave, full in ((cos, cos_of), (sin, sin_of)):
            for side in range(2):
                full[..., laid_out[self.tables][:, side] + self.start] = wave.expand(
                    *x.shape[:-1], -1
                )
        partner = torch.zeros_like(x)
        partner[..., pair_of[:, 0]] = x[..., pair_of[:, 1]] * (-1 if self.minus else 1)
        partner[..., pair_of[:, 1]] = x[..., pair_of[:, 0]]
        return x * cos_of + partner * sin_of


ROTATIONS = [
    ("layout", Wrong(layout="interleaved")),
    ("sign of the angle", Wrong(sign=(-1, -1))),
    ("sign of the angle", Wrong(sign=(1, -1))),
    ("sign of one sine", Wrong(minus=False)),
    ("tables of the other layout", Wrong(tables="interleaved")),
    *(("offset", Wrong(first=n)) for n in (1, -1, 2, 7, 777)),
    ("padding counted", Wrong(first=torch.tensor([[0], [4]]))),
    *(("base", Wrong(base=base)) for base in (500_000.0, 12_345.0, 100.0)),
    *(("partial width", Wrong(width=width)) for width in (4, 10)),
    ("frequencies of a partial width", Wrong(width=10, counted=D)),
    *(("linear factor", Wrong(factor=factor)) for factor in (1 / 4, 1 / 3, 3.0)),
    ("not turned", Wrong(sign=(0, 0))),
    ("not turned", Wrong(sign=(1, 0))),
    ("turned twice", Wrong(sign=(2, 2))),
    ("turned twice", Wrong(sign=(1, 2))),
]


@pytest.mark.unchecked
@pytest.mark.parametrize("which", range(len(ROTATIONS)))
def test_a_wrong_rotation_is_named(which: int) -> None:
    q, k, _ = raw(DTYPES[which % 2])
    rope, (cause, wrong) = pe.Rotary(D), ROTATIONS[which]
    ours, theirs = pe.rotate(q, k, rope), wrong(q, k)
    known = diagnose(ours, theirs, rope, q=q, k=k)
    assert known.cause == cause, known
    assert "the whole difference" in known.evidence
    assert not known.agree
    assert known.error > known.allowed > 0
    turned_back = diagnose(ours, theirs, rope)
    assert turned_back.cause == cause, turned_back


@pytest.mark.unchecked
@pytest.mark.parametrize(("cause", "wrong"), ROTATIONS[::3])
def test_a_wrong_rotation_is_named_from_results_alone(cause: str, wrong: Wrong) -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D, layout="interleaved") if wrong.layout == "half" else pe.Rotary(D)
    wrong = replace(wrong, layout="interleaved" if wrong.layout == "half" else wrong.layout)
    wrong = replace(wrong, tables="half" if wrong.tables else None)
    found = diagnose(pe.rotate(q, k, rope), wrong(q, k))
    assert found.cause == cause, found
    assert f"if ours is Rotary(dim={D}, base=10000.0, layout={rope.layout!r}" in found.evidence


@pytest.mark.parametrize("which", range(1, len(ROTATIONS), 3))
def test_wrong_rotations_are_named_from_scores_and_outputs(which: int) -> None:
    q, k, v = raw(DTYPES[which % 2])
    rope, (cause, wrong) = pe.Rotary(D), ROTATIONS[which]
    theirs = both(None, *wrong(q.float(), k.float()), v.float(), causal=True)
    ours = both(rope, q, k, v, causal=True)
    # A rotation that is off by as much on both sides shows in no score.
    cause = "none" if cause in ("offset", "padding counted") else cause
    for one, two, values in zip(ours, theirs, (None, v), strict=True):
        found = diagnose(one, two.to(one.dtype), rope, q=q, k=k, v=values, causal=True)
        assert found.cause == cause, found


PRECISION = [
    ("precision of positions", Wrong(position_dtype=torch.bfloat16)),
    ("precision of frequencies", Wrong(frequency_dtype=torch.bfloat16)),
    ("precision of angles", Wrong(angle_dtype=torch.bfloat16)),
    ("precision of tables", Wrong(table_dtype=torch.bfloat16)),
    ("precision of positions", Wrong(position_dtype=torch.float16)),
    ("precision of tables", Wrong(table_dtype=torch.float16)),
]


@pytest.mark.parametrize(("cause", "wrong"), PRECISION)
def test_low_precision_of_position_is_named(cause: str, wrong: Wrong) -> None:
    q, k, _ = raw(length=2_601)
    rope = pe.Rotary(D)
    found = diagnose(pe.rotate(q, k, rope), wrong(q, k), rope, q=q, k=k)
    assert found.cause == cause, found
    if cause == "precision of positions":
        tie = 257 if wrong.position_dtype == torch.bfloat16 else 2_049
        assert found.first is not None
        assert found.first.token == tie
        assert str(tie - 1) in found.evidence


def test_low_precision_is_named_in_bfloat16_where_it_is_more_than_rounding() -> None:
    q, k, _ = raw(torch.bfloat16, length=700)
    rope = pe.Rotary(D)
    ours = pe.rotate(q, k, rope)
    for cause, wrong in PRECISION[:3]:
        found = diagnose(ours, wrong(q, k), rope, q=q, k=k)
        assert found.cause == cause, found
    assert diagnose(ours, PRECISION[3][1](q, k), rope, q=q, k=k).agree


SCALINGS = [
    pe.Linear(8.0),
    pe.NTK(8.0),
    pe.YaRN(8.0, 1_024),
    pe.Proportional(0.3),
    pe.Llama3(8.0, 1.0, 4.0, original_length=8_192),
]


@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda scaling: type(scaling).__name__)
def test_a_scaling_is_named_on_whichever_side_it_is(scaling: object) -> None:
    q, k, _ = raw(length=40)
    plain, scaled = pe.Rotary(D), pe.Rotary(D, scaling=scaling)
    cause = {"Linear": "linear factor", "Proportional": "proportional width"}
    cause = cause.get(type(scaling).__name__, "scaling")
    one, two = pe.rotate(q, k, plain), pe.rotate(q, k, scaled)
    there = diagnose(one, two, plain, q=q, k=k)
    assert there.cause == cause
    if cause != "proportional width":
        assert repr(scaling) in there.evidence
    here = diagnose(two, one, scaled, q=q, k=k)
    assert here.cause in (cause, "scaling"), here


def test_what_yarn_means_by_its_factor() -> None:
    q, k, v = raw(length=30)
    yarn = pe.YaRN(4.0, 64, beta_fast=8.0)
    rope = pe.Rotary(D, rotary_dim=10, scaling=yarn)
    without = pe.Rotary(D, rotary_dim=10, scaling=replace(yarn, attention_factor=1.0))
    twice = pe.Rotary(D, rotary_dim=10, scaling=replace(yarn, attention_factor=yarn.gain**2))
    scale = D**-0.5
    outputs = {
        "leaves": pe.attend(q, k, v, without),
        "twice": pe.attend(q, k, v, twice),
        "whole scores": pe.attend(q, k, v, without, scale=scale * yarn.gain**2),
    }
    ours = pe.attend(q, k, v, rope)
    for word, theirs in outputs.items():
        found = diagnose(ours, theirs, rope, q=q, k=k, v=v)
        assert found.cause == "attention factor"
        assert word in found.evidence


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float = D**-0.5,
    bias: Tensor | float = 0.0,
    before: bool = False,
    diagonal: int | None = 0,
    tiled: bool = False,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """Scores and outputs by the plain formula, each step of which can be gone wrong at."""
    q, k, v = (x.double() for x in (q, k, v))
    share = q.shape[1] // k.shape[1]
    if tiled:
        k, v = k.repeat(1, share, 1, 1), v.repeat(1, share, 1, 1)
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    content = q @ k.mT
    s = (content + bias) * scale if before else content * scale + bias
    if diagonal is not None:
        hidden = torch.ones(q.shape[-2], k.shape[-2]).tril(diagonal) == 0
        s = s.masked_fill(hidden, -torch.inf)
    p = s.softmax(-1).nan_to_num(0.0)
    return s.to(dtype), (p @ v).to(dtype)


def both(encoding: object, q: Tensor, k: Tensor, v: Tensor, **options: object) -> tuple:
    return pe.scores(q, k, encoding, **options), pe.attend(q, k, v, encoding, **options)


def without(positions: pe.Positions, name: str) -> pe.Positions:
    """The same positions where neither side tells of this."""
    sides = (positions.queries, positions.keys)
    queries, keys = (replace(side, **{name: None}) for side in sides)
    return replace(positions, queries=queries, keys=keys)


def alibi_bias(slopes: list[float], future: float = 1.0) -> Tensor:
    step = torch.arange(T)[None] - torch.arange(T)[:, None]
    distance = torch.where(step > 0, future * step, -step).double()
    return -torch.tensor(slopes, dtype=torch.float64)[:, None, None] * distance


SLOPES = pe.ALiBi(H).slope_values()
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
        found = diagnose(one, two, encoding, v=values, **given)
        assert found.cause == cause, found


def test_biases_counted_from_the_first_key_differ_by_what_softmax_removes() -> None:
    """As in BLOOM, MPT and Falcon: slope times key position."""
    q, k, v = raw()
    key_only = torch.tensor(SLOPES)[:, None, None].double() * torch.arange(T)
    scores, output = attention(q, k, v, bias=key_only)
    encoding = pe.ALiBi(H)
    ours = both(encoding, q, k, v, causal=True)
    found = diagnose(ours[0], scores, encoding, q=q, k=k, causal=True)
    assert found.cause == "constant per row"
    assert diagnose(ours[1], output.float(), encoding, q=q, k=k, v=v, causal=True).agree


def test_wrong_scale_and_buckets_of_t5_are_named() -> None:
    q, k, v = raw()
    t5 = pe.T5Bias(H, buckets=8, max_distance=20)
    torch.nn.init.normal_(t5.weight, generator=torch.Generator().manual_seed(1))
    ours = both(t5, q, k, v, causal=True, scale=1.0)
    others = {
        "scale": both(t5, q, k, v, causal=True),
        "scale placement": both([t5, pe.Temperature("yarn", factor=1.0)], q, k, v, causal=True),
        "buckets": both(_like(t5, max_distance=64), q, k, v, causal=True, scale=1.0),
    }
    # x-transformers multiplies the bias by sqrt(d), and scales the content.
    multiplied = _like(t5)
    multiplied.weight.data *= D**0.5
    others["scale placement"] = both(multiplied, q, k, v, causal=True, scale=1.0)
    for cause, theirs in others.items():
        for one, two, values in zip(ours, theirs, (None, v), strict=True):
            found = diagnose(one, two, t5, q=q, k=k, v=values, causal=True, scale=1.0)
            assert found.cause == cause, found


def _like(t5: pe.T5Bias, **settings: object) -> pe.T5Bias:
    made = pe.T5Bias(**t5.settings() | settings)
    made.load_state_dict(t5.state_dict())
    return made


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
    found = diagnose(pe.attend(q, k, v), pe.attend(q, k, v)[:, heads])
    assert found.cause == "order of heads"
    assert str(heads) in found.evidence
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
        found = diagnose(ours, theirs, rope, q=q, k=k, v=values, causal=True)
        assert found.cause == "q and k swapped"


def test_heads_taken_for_tokens_are_named() -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D)
    theirs = tuple(
        pe.rotate(x.transpose(1, 2), x.transpose(1, 2), rope)[0].transpose(1, 2) for x in (q, k)
    )
    assert diagnose(pe.rotate(q, k, rope), theirs, rope).cause == "heads taken for tokens"


def test_trailing_dimensions_that_turn_are_named() -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D, rotary_dim=8)
    theirs = Wrong(width=8, start=D - 8)(q, k)
    found = diagnose(pe.rotate(q, k, rope), theirs, rope, q=q, k=k)
    assert found.cause == "which dimensions turn"


def elsewhere(positions: pe.Positions, q: Tensor, k: Tensor) -> pe.Positions:
    queries, keys = (
        replace(side, position=at) for side, at in ((positions.queries, q), (positions.keys, k))
    )
    return replace(positions, queries=queries, keys=keys)


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
        found = diagnose(ours, theirs, rope, q=queries, k=k, positions=right)
        assert found.cause == cause, found
    # What is computed for padding means nothing, and is not compared.
    ours = both(rope, q, k, v, positions=padded)
    seen = both(rope, q, k, v, positions=without(padded, "valid"))
    other = both(rope, q, k, v, positions=without(packed, "document"))
    hidden = both(rope, q, k, v, positions=packed)
    aligned = replace(decoding, queries=replace(decoding.queries, order=torch.arange(3)))
    top = both(rope, q[:, :, -3:], k, v, positions=aligned)
    last = both(rope, q[:, :, -3:], k, v, positions=decoding)
    for kind, values in enumerate((None, v)):
        given = {"k": k, "v": values}
        found = diagnose(ours[kind], seen[kind], rope, q=q, positions=padded, **given)
        assert found.cause == "padding", found
        found = diagnose(hidden[kind], other[kind], rope, q=q, positions=packed, **given)
        assert found.cause == "documents", found
        queries = q[:, :, -3:]
        found = diagnose(last[kind], top[kind], rope, q=queries, positions=decoding, **given)
        assert found.cause == "causal mask", found
        assert "aligns the causal mask at the first key" in found.evidence
    garbage = ours[1].clone()
    garbage[1, :, :4] = 7.0
    assert diagnose(ours[1], garbage, rope, q=q, k=k, v=v, positions=padded).agree


def test_a_window_off_by_one_is_named() -> None:
    q, k, v = raw()
    ours, theirs = (both([pe.Rotary(D), pe.SlidingWindow(w)], q, k, v, causal=True) for w in (4, 5))
    parts = [pe.Rotary(D), pe.SlidingWindow(4)]
    for one, two, values in zip(ours, theirs, (None, v), strict=True):
        found = diagnose(one, two, parts, q=q, k=k, v=values, causal=True)
        assert found.cause == "width of the window"
        assert "wider" in found.evidence


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
        found = diagnose(encoding.embed(x, plain), theirs, encoding, x=x)
        assert found.cause == cause, found


def test_two_causes_at_once_are_named_together() -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D)
    theirs = Wrong(layout="interleaved", first=1)(q, k)
    assert diagnose(pe.rotate(q, k, rope), theirs, rope).cause == "layout and offset"
    theirs = Wrong(layout="interleaved", base=12_345.0)(q, k)
    assert diagnose(pe.rotate(q, k, rope), theirs, rope, q=q, k=k).cause == "layout and base"


def test_two_numbers_that_are_wrong_at_once_are_named_together() -> None:
    """Neither is right where it is fitted alone."""
    q, k, v = raw(length=64)
    rope = pe.Rotary(D)
    found = diagnose(pe.rotate(q, k, rope), Wrong(base=5e5, first=3)(q, k), rope, q=q, k=k)
    assert found.cause == "offset and base", found
    assert "counts positions +3 from ours" in found.evidence
    assert "has the base 500000, ours 10000" in found.evidence
    ours = pe.attend(q, k, v, rope, causal=True)
    theirs = pe.attend(q, k, v, pe.Rotary(D, base=123_456.0), causal=True, scale=0.3)
    found = diagnose(ours, theirs, rope, q=q, k=k, v=v, causal=True)
    assert sorted(found.cause.split(" and ")) == ["base", "scale"], found
    assert "scales q . k by 0.3" in found.evidence
    assert "has the base 123456" in found.evidence


LAYOUTS = [("half", "interleaved"), ("interleaved", "half")]


def converted(q: Tensor, k: Tensor, old: str, new: str) -> tuple[Tensor, Tensor]:
    """q and k of projections whose rows were converted from one layout to the other."""
    return tuple(pe.convert_layout(x, old, new, head_dim=D, dim=-1) for x in (q, k))


@pytest.mark.parametrize(("old", "new"), LAYOUTS)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_weights_in_the_other_layout_are_named(layout: str, old: str, new: str) -> None:
    """Trusted q and k, and those that other weights give to right code."""
    q, k, v = raw()
    rope, other = pe.Rotary(D, layout=layout), converted(q, k, old, new)
    ours, theirs = pe.rotate(q, k, rope), pe.rotate(*other, rope)
    for held in ({"q": q, "k": k}, {}, {"q": other[0], "k": other[1]}):
        found = diagnose(ours, theirs, rope, **held)
        assert found.cause == "layout of the weights", found
        assert "the whole difference" in found.evidence
    assert f'from layout "{old}" to "{new}"' in diagnose(ours, theirs, rope, q=q, k=k).evidence
    one, two = (both(rope, *pair, v, causal=True) for pair in ((q, k), other))
    for ours, theirs, values in zip(one, two, (None, v), strict=True):
        found = diagnose(ours, theirs, rope, q=q, k=k, v=values, causal=True)
        # Where the weights are in the layout that ours has not, scores are those of its pairs.
        assert found.cause == ("layout" if new == layout else "layout of the weights"), found
        assert "weights" in found.evidence


def test_weights_in_the_other_layout_are_named_beside_another_fault() -> None:
    q, k, v = raw()
    rope, wrong = pe.Rotary(D), pe.Rotary(D, base=5e5)
    other = converted(q, k, "half", "interleaved")
    found = diagnose(pe.rotate(q, k, rope), pe.rotate(*other, wrong), rope, q=q, k=k)
    assert found.cause == "layout of the weights and base", found
    ours, theirs = pe.attend(q, k, v, rope), pe.attend(*other, v, wrong)
    found = diagnose(ours, theirs, rope, q=q, k=k, v=v)
    assert found.cause == "layout of the weights and base", found


def test_agreement_on_given_raw_tensors_says_what_it_leaves_open() -> None:
    q, k, v = raw()
    rope = pe.Rotary(D)
    other = converted(q, k, "half", "interleaved")
    turned, output = pe.rotate(*other, rope), pe.attend(*other, v, rope)
    for found in (
        diagnose(turned, turned, rope, q=other[0], k=other[1]),
        diagnose(output, output, rope, q=other[0], k=other[1], v=v),
    ):
        assert found.agree
        assert "That is of the same raw q and k" in found.evidence
    assert "raw" not in diagnose(turned, turned, rope).evidence
    assert diagnose((q, k), other).cause == "order of dimensions"


def test_it_says_so_where_ours_is_the_wrong_one() -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D)
    found = diagnose(Wrong(layout="interleaved")(q, k), Wrong()(q, k), rope, q=q, k=k)
    assert found.cause == "layout"
    assert "ours is not" in found.evidence
    assert 'Ours pairs dimensions (2i, 2i + 1), layout "interleaved"; theirs' in found.evidence


@pytest.mark.unchecked
def test_what_no_hypothesis_explains_is_unknown() -> None:
    q, k, v = raw()
    rope, generator = pe.Rotary(D), torch.Generator().manual_seed(9)
    ours = pe.rotate(q, k, rope)
    theirs = tuple(torch.randn(x.shape, generator=generator) for x in ours)
    output = pe.attend(q, k, v, rope)
    noise = torch.randn(output.shape, generator=generator)
    for found in (
        diagnose(ours, theirs, rope, q=q, k=k),
        diagnose(ours, theirs, rope),
        diagnose(output, output + noise, rope, q=q, k=k, v=v),
    ):
        assert found.cause == "unknown"
        assert "unknown" in str(found)
        assert found.candidates
        assert not any(candidate.fits for candidate in found.candidates)
        assert found.candidates[0].left > 0.2
    blind = diagnose(output, output + noise, kind="output")
    assert blind.cause == "unknown"
    assert "With raw tensors" in blind.evidence


def test_a_single_number_that_differs_is_found_where_it_is() -> None:
    q, k, _ = raw(torch.float64)
    rope = pe.Rotary(D)
    ours = pe.rotate(q, k, rope)
    theirs = tuple(x.clone() for x in ours)
    theirs[1][1, 2, 7, 13] += 0.25
    found = diagnose(ours, theirs, rope, q=q, k=k)
    assert found.first == ("k", 1, 2, 7, 13)
    assert found.error == pytest.approx(0.25)
    assert found.cause == "unknown"
    assert "Only k differs." in found.evidence
    assert "dimensions of k, 13 differ" in found.evidence


PARTS: list[Callable[[], pe.Encoding]] = [
    lambda: pe.Rotary(D),
    lambda: pe.Rotary(D, layout="interleaved", rotary_dim=8, scaling=pe.YaRN(4.0, 64)),
    lambda: pe.Rotary(D, scaling=pe.DynamicNTK(2.0, original_length=4)),
    lambda: pe.XPos(D),
    lambda: pe.ALiBi(H),
    lambda: pe.T5Bias(H),
    lambda: pe.Shaw(D, clip=3),
    lambda: pe.CoPE(D, max_position=5),
]


@pytest.mark.parametrize("make", PARTS)
def test_right_implementations_agree_in_every_dtype(make: Callable[[], pe.Encoding]) -> None:
    encoding = make()
    for length in (1, T, 67):
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
            q, k, v = (x.to(dtype) for x in raw(torch.float64, length))
            exact = both(encoding, q.double(), k.double(), v.double(), causal=True)
            theirs = both(encoding, q, k, v, causal=True)
            for one, two, values in zip(exact, theirs, (None, v), strict=True):
                given = {"q": q, "k": k, "v": values, "causal": True}
                found = diagnose(one, two, encoding, **given)
                assert found.agree, (dtype, length, str(found))
                assert found.cause == "none"
                assert found.error <= found.allowed
                assert diagnose(two, one, encoding, **given).agree


@pytest.mark.parametrize(
    ("dtype", "first"),
    [(torch.float32, 0), (torch.float32, 4_000), (torch.bfloat16, 4_000), (torch.float16, 0)],
)
def test_transformers_agrees(dtype: torch.dtype, first: int) -> None:
    """Its angles are float32, its cos, sin and products in the dtype of q."""
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    from transformers import LlamaConfig

    q, k, v = raw(dtype, length=130)
    config = LlamaConfig(hidden_size=H * D, num_attention_heads=H, num_key_value_heads=G)
    at = torch.arange(first, first + 130)
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, at[None])
    theirs = llama.apply_rotary_pos_emb(q, k, cos, sin)
    rope = pe.Rotary(D)
    ours = pe.rotate(q, k, rope, positions=at)
    assert diagnose(ours, theirs, rope, q=q, k=k, positions=at).agree
    assert diagnose(ours, theirs, rope, positions=at).agree
    if not first:
        assert diagnose(ours, theirs).agree
    output = torch.nn.functional.scaled_dot_product_attention(
        *theirs[:1], theirs[1].repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True
    )
    ours = pe.attend(q, k, v, rope, causal=True)
    assert diagnose(ours, output, rope, q=q, k=k, v=v, causal=True, positions=at).agree


def test_a_scale_is_named_where_scores_differ_by_one_number() -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D)
    ours = pe.scores(q, k, rope)
    found = diagnose(ours, pe.scores(q, k, rope, scale=1 / D), rope, q=q, k=k)
    assert found.cause == "scale"
    assert "1/sqrt(d) twice" in found.evidence
    assert diagnose(ours, 1.25 * ours, rope, q=q, k=k).cause == "constant factor"


def test_queries_alone_can_be_compared() -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D)
    ours, theirs = pe.rotate(q, k, rope)[0], Wrong(layout="interleaved")(q, k)[0]
    for given in ({"q": q}, {}):
        found = diagnose(ours, theirs, rope, **given)
        assert found.cause == "layout"
        assert found.first is not None
        assert found.first.tensor == "q"
    assert diagnose(ours, theirs).cause == "layout"


def test_hidden_scores_may_be_any_large_negative_number() -> None:
    q, k, _ = raw()
    ours = pe.scores(q, k, pe.Rotary(D), causal=True)
    for number in (torch.finfo(torch.float32).min, -1e9, -1e4):
        theirs = ours.masked_fill(ours == -torch.inf, number)
        assert diagnose(ours, theirs, pe.Rotary(D), q=q, k=k, causal=True).agree
        assert diagnose(theirs, ours, kind="scores").agree
    found = diagnose(ours, ours.masked_fill(ours == -torch.inf, 0.0), kind="scores")
    assert found.error == math.inf
    assert found.first == ("scores", 0, 0, 0, 1)


def test_dtype_says_in_which_precision_theirs_was_computed() -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D)
    ours = pe.rotate(q, k, rope)
    theirs = tuple(x.bfloat16().float() for x in ours)
    assert not diagnose(ours, theirs, rope, q=q, k=k).agree
    found = diagnose(ours, theirs, rope, q=q, k=k, dtype=torch.bfloat16)
    assert found.agree
    assert "bfloat16" in found.evidence


def test_long_inputs_are_diagnosed_from_some_of_their_tokens() -> None:
    q, k, v = raw(length=300)
    rope = pe.Rotary(D)
    found = diagnose(pe.rotate(q, k, rope), Wrong(base=5e5)(q, k), rope, q=q, k=k)
    assert found.cause == "base"
    ours = pe.attend(q, k, v, rope, causal=True)
    theirs = pe.attend(q, k, v, rope, causal=True, scale=1 / D)
    found = diagnose(ours, theirs, rope, q=q, k=k, v=v, causal=True)
    assert found.cause == "scale"
    assert "the whole difference" in found.evidence


def test_bad_input_is_refused(unhooked: None) -> None:
    q, k, v = raw()
    rope = pe.Rotary(D)
    ours = pe.rotate(q, k, rope)
    with pytest.raises(ShapeError, match="heads before tokens"):
        diagnose(ours, (ours[0].transpose(1, 2), ours[1]))
    wrong = ours[0].clone()
    wrong[0, 0, 3, 1] = math.nan
    with pytest.raises(ShapeError, match=r"theirs=.*NaN, first at \(0, 0, 3, 1\)"):
        diagnose(ours[0], wrong)
    with pytest.raises(ShapeError, match="holds inf"):
        diagnose(ours[0], ours[0] + math.inf)
    with pytest.raises(ShapeError, match="-inf"):
        diagnose(ours[0], ours[0] - math.inf, kind="turned")
    with pytest.raises(ShapeError, match="int64"):
        diagnose(ours[0].long(), ours[0].long())
    for none in ((*ours, v), None, 1.0, "q", ()):
        with pytest.raises(ShapeError, match="a pair"):
            diagnose(none, none)
    with pytest.raises(ShapeError, match=r"theirs \[\(2, 6, 11, 20\)\]: bring both"):
        diagnose(ours, ours[0])
    with pytest.raises(ShapeError, match="at least one number"):
        diagnose(q[:0], q[:0])
    for empty in (q.to("meta"), q.to_sparse()):
        with pytest.raises(ShapeError, match="give one that holds numbers"):
            diagnose(q, empty)
    with pytest.raises(ShapeError, match="is needed of each"):
        diagnose(q[0, 0], q[0, 0])
    with pytest.raises(ShapeError, match="kind="):
        diagnose(q, q, kind="query")
    with pytest.raises(ShapeError, match="without k: give all of q, k"):
        diagnose(ours, ours, rope, q=q)
    with pytest.raises(ShapeError, match="give those that ours was computed from"):
        diagnose(ours, ours, rope, q=q[:, :, :5], k=k[:, :, :5])
    s = pe.scores(q, k, rope)
    with pytest.raises(ShapeError, match=r"diagnose\(q=...\).* NaN, first at \(0, 0, 0, 0\)"):
        diagnose(s, s + 1, rope, q=math.nan * q, k=k)
    with pytest.raises(ShapeError, match="raw tensors are finite"):
        diagnose(s, s + 1, rope, q=q - math.inf, k=k)
    with pytest.raises(ShapeError, match="not list"):
        diagnose(s, s + 1, rope, q=q.tolist(), k=k)
    with pytest.raises(ShapeError, match="a finite number"):
        diagnose(s, s + 1, rope, q=q, k=k, scale=math.nan)
    with pytest.raises(ShapeError, match="dtype is one of"):
        diagnose(s, s + 1, rope, q=q, k=k, dtype=torch.int32)
    with pytest.raises(UnsupportedError, match="turns neither q nor k"):
        diagnose(ours, ours, pe.ALiBi(H), q=q, k=k)
    with pytest.raises(UnsupportedError, match="give scores or outputs"):
        diagnose(ours, ours, pe.ReRoPE(D, window=3), q=q, k=k, causal=True)
    with pytest.raises(UnsupportedError, match="give the raw ones"):
        diagnose(ours, ours, pe.XPos(D), causal=True)


def test_a_diagnosis_is_data_and_reads_as_sentences() -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D)
    found = diagnose(pe.rotate(q, k, rope), (q, k), rope)
    assert isinstance(found, Diagnosis)
    assert str(found) == found.evidence
    assert str(found).startswith("They differ, first at token 1, dimension 0 of q (batch row 0")
    assert str(found).count(". ") >= 3
    assert found.candidates[0].left < 1e-6
    assert str(diagnose(q, q)).startswith("They agree")


def test_terms_and_encodings_that_read_the_layer_are_diagnosed_too() -> None:
    q, k, v = raw()
    lowered = pe.lower([pe.Rotary(D), pe.ALiBi(H)], T, causal=True)
    ours = pe.scores(q, k, lowered)
    theirs = pe.scores(q, k, [pe.Rotary(D), pe.ALiBi(H)], causal=False)
    assert diagnose(ours, theirs, lowered, q=q, k=k).cause == "causal mask"
    gate = pe.ForgetGate(24, H).eval()
    x = torch.randn(B, T, 24, generator=torch.Generator().manual_seed(4))
    options = {"causal": True, "context": pe.Context(x)}
    ours, theirs = both(gate, q, k, v, **options), both(None, q, k, v, causal=True)
    for one, two, values in zip(ours, theirs, (None, v), strict=True):
        found = diagnose(one.detach(), two, gate, q=q, k=k, v=values, **options)
        assert found.cause == "bias missing", found


def test_inputs_are_left_as_they_were_and_need_no_gradient() -> None:
    q, k, _ = (x.requires_grad_() for x in raw())
    rope = pe.Rotary(D)
    ours, theirs = pe.rotate(q, k, rope), (q, k)
    before = [x.detach().clone() for x in (*ours, *theirs)]
    assert diagnose(ours, theirs, rope, q=q, k=k).cause == "not turned"
    t5 = pe.T5Bias(H)
    s = pe.scores(q, k, t5)
    state = torch.random.get_rng_state()
    assert diagnose(s, 1.5 * s, t5, q=q, k=k).cause == "constant factor"
    assert torch.equal(torch.random.get_rng_state(), state)
    for x, kept in zip((*ours, *theirs), before, strict=True):
        assert torch.equal(x.detach(), kept)


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
        found = diagnose(one.detach(), same.detach(), encoding, q=q, k=k, v=values, **given)
        assert found.agree, found
        found = diagnose(one.detach(), other.detach(), encoding, q=q, k=k, v=values, **given)
        assert found.cause == "scale", found
