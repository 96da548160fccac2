"""The check suite can fail: every planted fault is caught by the check that it names."""

import pytest

from posenc.errors import PosencError
from posenc.testing import all_checks, run_check, run_checks
from tests.support.faults import CLAIMS, FALSE_CLAIMS, FAULTS, Fault, plant

ALL = [*FAULTS, *CLAIMS]
# They compare graphs with the faulty code itself, and take as long as all other checks together.
TRACES = {"check_compiles", "check_exports"}


def no_cause(*args: object, **where: object) -> None:
    raise PosencError("not asked for")


@pytest.mark.long
@pytest.mark.parametrize("fault", ALL, ids=lambda fault: fault.name)
def test_fault_is_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the check that it names and, where it says so, by no other of the suite.

    Those that trace are asked of the faults that one of them is to see.
    """
    sound = run_check(fault.encoding(), fault.caught_by)
    assert sound.status == ("skipped" if fault in FALSE_CLAIMS else "passed"), sound.detail
    plant(fault, monkeypatch)
    # tests/analysis/test_diagnose_faults.py looks for the cause of each, which takes as long again.
    # By its public name, too, which would stay what it is when it is first asked for.
    for owner in ("posenc", "posenc.analysis.diagnose"):
        monkeypatch.setattr(f"{owner}.diagnose", no_cause)
    suite = None if fault.caught_by in TRACES else set(all_checks()) - TRACES
    asked = suite if fault.alone else fault.caught_by
    failed = [r for r in run_checks(fault.encoding(), only=asked) if r.status == "failed"]
    assert [result.check for result in failed] == [fault.caught_by]
    assert failed[0].detail.startswith(failed[0].claim)


def test_every_check_has_a_fault_of_its_own() -> None:
    """The counts are exact: whoever takes a fault or a check away says so here."""
    assert (len(FAULTS), len(CLAIMS)) == (165, 48)
    assert len({fault.name for fault in ALL}) == len(ALL)
    assert sorted(fault.caught_by for fault in ALL if fault.alone) == sorted(all_checks())
