"""The check suite can fail: every planted fault is caught by the check that it names."""

import pytest

from posenc.testing import all_checks, run_check
from tests.support.faults import CLAIMS, FAULTS, Fault, plant

ALL = [*FAULTS, *CLAIMS]


@pytest.mark.graph
@pytest.mark.parametrize("fault", ALL, ids=lambda fault: fault.name)
def test_fault_is_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = run_check(fault.encoding(), fault.caught_by)
    assert sound.status == "passed", sound.detail
    plant(fault, monkeypatch)
    found = run_check(fault.encoding(), fault.caught_by)
    assert found.status == "failed"
    assert found.detail.startswith(found.claim)


def test_every_check_has_a_fault() -> None:
    """The counts are exact: whoever takes a fault or a check away says so here."""
    assert (len(FAULTS), len(CLAIMS)) == (110, 26)
    assert len({fault.name for fault in ALL}) == len(ALL)
    assert {fault.caught_by for fault in ALL} == set(all_checks())
