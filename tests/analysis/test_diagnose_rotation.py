"""diagnose names what is wrong with a rotation."""

from dataclasses import replace

import pytest
import torch

import posenc as pe
from posenc.analysis.diagnose import diagnose
from tests.support.diagnosed import DTYPES, D, Wrong, both, raw

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
    diagnosis = diagnose(pe.rotate(q, k, rope), wrong(q, k))
    assert diagnosis.cause == cause, diagnosis
    assert f"if ours is Rotary(dim={D}, base=10000.0, layout={rope.layout!r}" in diagnosis.evidence


@pytest.mark.parametrize("which", range(1, len(ROTATIONS), 3))
def test_wrong_rotations_are_named_from_scores_and_outputs(which: int) -> None:
    q, k, v = raw(DTYPES[which % 2])
    rope, (cause, wrong) = pe.Rotary(D), ROTATIONS[which]
    theirs = both(None, *wrong(q.float(), k.float()), v.float(), causal=True)
    ours = both(rope, q, k, v, causal=True)
    # A rotation that is off by as much on both sides shows in no score.
    cause = "none" if cause in ("offset", "padding counted") else cause
    for one, two, values in zip(ours, theirs, (None, v), strict=True):
        diagnosis = diagnose(one, two.to(one.dtype), rope, q=q, k=k, v=values, causal=True)
        assert diagnosis.cause == cause, diagnosis


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
    diagnosis = diagnose(pe.rotate(q, k, rope), wrong(q, k), rope, q=q, k=k)
    assert diagnosis.cause == cause, diagnosis
    if cause == "precision of positions":
        tie = 257 if wrong.position_dtype == torch.bfloat16 else 2_049
        assert diagnosis.first is not None
        assert diagnosis.first.token == tie
        assert str(tie - 1) in diagnosis.evidence


def test_low_precision_is_named_in_bfloat16_where_it_is_more_than_rounding() -> None:
    q, k, _ = raw(torch.bfloat16, length=700)
    rope = pe.Rotary(D)
    ours = pe.rotate(q, k, rope)
    for cause, wrong in PRECISION[:3]:
        diagnosis = diagnose(ours, wrong(q, k), rope, q=q, k=k)
        assert diagnosis.cause == cause, diagnosis
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
        diagnosis = diagnose(ours, theirs, rope, q=q, k=k, v=v)
        assert diagnosis.cause == "attention factor"
        assert word in diagnosis.evidence


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
    diagnosis = diagnose(pe.rotate(q, k, rope), theirs, rope, q=q, k=k)
    assert diagnosis.cause == "which dimensions turn"


def test_queries_alone_can_be_compared() -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D)
    ours, theirs = pe.rotate(q, k, rope)[0], Wrong(layout="interleaved")(q, k)[0]
    for given in ({"q": q}, {}):
        diagnosis = diagnose(ours, theirs, rope, **given)
        assert diagnosis.cause == "layout"
        assert diagnosis.first is not None
        assert diagnosis.first.tensor == "q"
    assert diagnose(ours, theirs).cause == "layout"
