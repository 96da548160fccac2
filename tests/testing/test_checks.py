"""Every encoding of the catalogue passes the public suite, and the suite reports as promised."""

import re

import pytest
import torch

import posenc as pe
from posenc.terms import DistanceTable, Slope
from posenc.testing import (
    all_checks,
    check_encoding,
    claim_of,
    parametrize_with_checks,
    run_check,
    run_checks,
)
from posenc.testing.fixtures import attends, terms_of
from posenc.testing.suite import chosen_checks

EXAMPLES = [example for member in pe.encodings().values() for example in member.examples()]
# Tracing takes a fifth of a suite's time, and what the settings of one class change in a graph is
# mostly numbers: one example is traced of each class and, since these are code, of each scaling.
TRACES = {"check_compiles", "check_exports"}
TRACED = {(type(x), type(getattr(x, "scaling", None))): x for x in reversed(EXAMPLES)}
# What these ask hangs on kinds of terms, not on their numbers, and takes as long as most others
# together. check_scales and check_negative_orders hold every example to the reference in every
# backend, and tests/backends/test_native_precision.py to float64 in low precision.
LONG = {
    "check_backends",
    "check_gradients_in_low_precision",
    "check_hidden_tokens",
    "check_long_inputs",
    "check_masks_in_backends",
    "check_other_rows",
    "check_wide_windows",
}


def kinds(encoding: pe.Encoding) -> tuple[type, ...]:
    """Its class, and those of its scaling and of what it lowers to."""
    terms = terms_of(encoding) if attends(encoding) else ()
    return type(encoding), type(getattr(encoding, "scaling", None)), *map(type, terms)


ONE_OF_EACH_KIND = {kinds(example): example for example in reversed(EXAMPLES)}


@pytest.mark.unchecked
@parametrize_with_checks(EXAMPLES, only=set(all_checks()) - TRACES - LONG)
def test_encoding(encoding, check):
    check(encoding)


@pytest.mark.unchecked
@parametrize_with_checks(ONE_OF_EACH_KIND.values(), only=LONG)
def test_encoding_in_full(encoding, check):
    check(encoding)


@pytest.mark.long
@parametrize_with_checks(TRACED.values(), only=TRACES)
def test_traced_encoding(encoding, check):
    check(encoding)


class Backwards(pe.ALiBi):
    """A user's own class, from outside the package, that rewards distance.

    Source: nobody.
    """

    def slope_values(self):
        return [-slope for slope in super().slope_values()]

    @classmethod
    def examples(cls):
        yield cls(2)


@pytest.mark.graph
def test_a_users_own_class_is_held_to_its_claims():
    with pytest.raises(pe.CheckError, match=r"Backwards\(heads=2[^)]*\) fails 3 of") as told:
        check_encoding(Backwards(2))
    (detail,) = re.findall("check_reference_scores: (.*)", str(told.value))
    assert detail.startswith("Scores equal the paper's formula")
    assert "off by" in detail
    assert "1e-09" in detail


def test_expected_failures_are_strict():
    only = ["check_reference_scores", "check_repr"]
    expected = {"check_reference_scores": "its slopes are negative"}
    results = run_checks(Backwards(2), expected_failures=expected, only=only)
    assert {result.check: result.status for result in results} == {
        "check_reference_scores": "expected",
        "check_repr": "passed",
    }
    check_encoding(Backwards(2), expected_failures=expected, only=only)
    wrong = expected | {"check_repr": "no reason"}
    with pytest.raises(pe.CheckError, match="check_repr: expected to fail"):
        check_encoding(Backwards(2), expected_failures=wrong, only=only)
    with pytest.raises(pe.CheckError, match="names no check: check_nothing"):
        check_encoding(Backwards(2), expected_failures={"check_nothing": "?"})


class Rounded(pe.ALiBi):
    """Slopes in a lower precision, as other code might have them."""

    def slope_values(self):
        return [slope * (1 + 1e-6) for slope in super().slope_values()]


def test_a_tolerance_allows_rounding_and_only_that():
    name = "check_reference_scores"
    assert run_check(Rounded(4), name).status == "failed"
    assert run_check(Rounded(4), name, tolerance=1e-4).status == "passed"
    assert run_check(Backwards(4), name, tolerance=1e-4).status == "failed"
    check_encoding(Rounded(4), only=name, tolerance=1e-4)


@pytest.mark.parametrize("tolerance", [float("nan"), float("inf"), -1.0])
def test_a_tolerance_that_would_decide_alone_is_refused(tolerance):
    with pytest.raises(pe.SettingError, match=r"tolerance=.*0 or more"):
        check_encoding(pe.ALiBi(4), only="check_reference_scores", tolerance=tolerance)


def test_the_checks_of_behaviour_leave_the_object_out():
    names = {result.check for result in run_checks(pe.NoPE(), only=["check_repr", "check_norms"])}
    assert names == {"check_repr", "check_norms"}
    behaviour = chosen_checks("behaviour")
    assert "check_reference_scores" in behaviour
    assert "check_repr" not in behaviour
    with pytest.raises(pe.CheckError, match="check_nothing"):
        check_encoding(pe.NoPE(), only="check_nothing")


def test_scores_that_differ_come_with_a_likely_cause():
    detail = run_check(Backwards(4), "check_reference_scores").detail
    assert detail.endswith("likely: sign of the bias")


def test_wrong_weights_of_one_instance_do_not_accuse_others():
    assert run_check(Backwards(4), "check_instances_share_nothing").status == "passed"


class Asserting(pe.ALiBi):
    """Slopes of which an assertion fails."""

    def slope_values(self):
        raise AssertionError("no slopes")


def test_whatever_an_encoding_raises_is_a_failure_of_its_check():
    detail = run_check(Asserting(4), "check_reference_scores").detail
    assert detail.endswith("raised AssertionError: no slopes")


def test_a_class_is_no_encoding():
    with pytest.raises(TypeError, match="Encoding"):
        check_encoding(pe.ALiBi)


def test_every_check_claims_one_sentence():
    for name, check in all_checks().items():
        claim = claim_of(check)
        assert claim.endswith("."), name
        assert "\n" not in claim, name


class Broken(pe.ALiBi):
    """Lowers as it is told."""

    lowered = staticmethod(lambda: None)

    def lower(self, positions, context=None, *, dtype=torch.float32):
        return self.lowered()


def raised():
    raise KeyError("no terms")


UNLOWERED = {
    "an error": raised,
    "nothing": lambda: None,
    "one term": lambda: Slope(torch.ones(4)),
    "a table that ends": lambda: (DistanceTable(torch.ones(4, 3), zero=1, saturates=False),),
}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("lowered", UNLOWERED)
def test_an_encoding_that_cannot_be_lowered_fails_by_the_names_of_checks(lowered, monkeypatch):
    monkeypatch.setattr(Broken, "lowered", staticmethod(UNLOWERED[lowered]))
    only = ["check_docstring", "check_masks", "check_masks_in_backends", "check_reference_scores"]
    results = {each.check: each for each in run_checks(Broken(4), only=only)}
    # Its docstring names no source, and is asked before.
    assert {each.status for each in results.values()} == {"failed"}
    assert "raised" in results["check_masks"].detail
    with pytest.raises(pe.CheckError, match="fails 4 of 4 checks"):
        check_encoding(Broken(4), only=only)
    parametrize_with_checks([Broken(4)], only=only)


class Unkept(pe.NoPE):
    """A setting that it does not keep."""

    def __init__(self, lost: int = 3) -> None:
        super().__init__()


def test_an_encoding_that_cannot_be_shown_is_named_by_its_class():
    result = run_check(Unkept(), "check_repr")
    assert (result.encoding, result.status) == ("Unkept", "failed")
    with pytest.raises(pe.CheckError, match=r"^Unkept fails 1 of 1"):
        check_encoding(Unkept(), only="check_repr")


def test_one_that_takes_no_counts_is_told_what_to_do():
    with pytest.raises(pe.CheckError, match=r"are counted \(t,\): let the encoding place them"):
        pe.check_encoding(pe.Coordinates(16, axes=2), only="check_pickle")
    with pytest.raises(pe.CheckError) as told:
        pe.check_encoding(Asserting(4), only="check_reference_scores")
    assert "place them" not in str(told.value)
