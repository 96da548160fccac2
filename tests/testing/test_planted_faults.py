"""The check suite can fail: every planted fault is caught by the check that it names."""

import pytest

from posenc.testing import run_check
from tests.support.faults import FAULTS, Fault, plant


@pytest.mark.graph
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = run_check(fault.encoding(), fault.caught_by)
    assert sound.status == "passed", sound.detail
    plant(fault, monkeypatch)
    found = run_check(fault.encoding(), fault.caught_by)
    assert found.status == "failed"
    assert found.detail.startswith(found.claim)


def test_faults_are_many_and_spread() -> None:
    assert len(FAULTS) >= 20
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len({fault.caught_by for fault in FAULTS}) >= 15
