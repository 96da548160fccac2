"""diagnose tells weights from rotations, one cause from two, and ours from theirs."""

import pytest

import posenc as pe
from posenc.analysis.diagnose import diagnose
from tests.support.diagnosed import D, Wrong, both, converted, raw

# Searches of thousands of calls.
pytestmark = pytest.mark.unchecked


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
    diagnosis = diagnose(pe.rotate(q, k, rope), Wrong(base=5e5, first=3)(q, k), rope, q=q, k=k)
    assert diagnosis.cause == "offset and base", diagnosis
    assert "counts positions +3 from ours" in diagnosis.evidence
    assert "has the base 500000, ours 10000" in diagnosis.evidence
    ours = pe.attend(q, k, v, rope, causal=True)
    theirs = pe.attend(q, k, v, pe.Rotary(D, base=123_456.0), causal=True, scale=0.3)
    diagnosis = diagnose(ours, theirs, rope, q=q, k=k, v=v, causal=True)
    assert sorted(diagnosis.cause.split(" and ")) == ["base", "scale"], diagnosis
    assert "scales q . k by 0.3" in diagnosis.evidence
    assert "has the base 123456" in diagnosis.evidence


LAYOUTS = [("half", "interleaved"), ("interleaved", "half")]


@pytest.mark.parametrize(("old", "new"), LAYOUTS)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_weights_in_the_other_layout_are_named(layout: str, old: str, new: str) -> None:
    """Trusted q and k, and those that other weights give to right code."""
    q, k, v = raw()
    rope, other = pe.Rotary(D, layout=layout), converted(q, k, old, new)
    ours, theirs = pe.rotate(q, k, rope), pe.rotate(*other, rope)
    for held in ({"q": q, "k": k}, {}, {"q": other[0], "k": other[1]}):
        diagnosis = diagnose(ours, theirs, rope, **held)
        assert diagnosis.cause == "layout of the weights", diagnosis
        assert "the whole difference" in diagnosis.evidence
    assert f'from layout "{old}" to "{new}"' in diagnose(ours, theirs, rope, q=q, k=k).evidence
    one, two = (both(rope, *pair, v, causal=True) for pair in ((q, k), other))
    for ours, theirs, values in zip(one, two, (None, v), strict=True):
        diagnosis = diagnose(ours, theirs, rope, q=q, k=k, v=values, causal=True)
        # Where the weights are in the layout that ours has not, scores are those of its pairs.
        assert diagnosis.cause == ("layout" if new == layout else "layout of the weights"), (
            diagnosis
        )
        assert "weights" in diagnosis.evidence


def test_weights_in_the_other_layout_are_named_beside_another_fault() -> None:
    q, k, v = raw()
    rope, wrong = pe.Rotary(D), pe.Rotary(D, base=5e5)
    other = converted(q, k, "half", "interleaved")
    diagnosis = diagnose(pe.rotate(q, k, rope), pe.rotate(*other, wrong), rope, q=q, k=k)
    assert diagnosis.cause == "layout of the weights and base", diagnosis
    ours, theirs = pe.attend(q, k, v, rope), pe.attend(*other, v, wrong)
    diagnosis = diagnose(ours, theirs, rope, q=q, k=k, v=v)
    assert diagnosis.cause == "layout of the weights and base", diagnosis


def test_agreement_on_given_raw_tensors_says_what_it_leaves_open() -> None:
    q, k, v = raw()
    rope = pe.Rotary(D)
    other = converted(q, k, "half", "interleaved")
    turned, output = pe.rotate(*other, rope), pe.attend(*other, v, rope)
    for diagnosis in (
        diagnose(turned, turned, rope, q=other[0], k=other[1]),
        diagnose(output, output, rope, q=other[0], k=other[1], v=v),
    ):
        assert diagnosis.agree
        assert "That is of the same raw q and k" in diagnosis.evidence
    assert "raw" not in diagnose(turned, turned, rope).evidence
    assert diagnose((q, k), other).cause == "order of dimensions"


def test_it_says_so_where_ours_is_the_wrong_one() -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D)
    diagnosis = diagnose(Wrong(layout="interleaved")(q, k), Wrong()(q, k), rope, q=q, k=k)
    assert diagnosis.cause == "layout"
    assert "ours is not" in diagnosis.evidence
    assert 'Ours pairs dimensions (2i, 2i + 1), layout "interleaved"; theirs' in diagnosis.evidence
