"""What `make mutants` plants, which takes longer than a test: its lines are still there."""

from pathlib import Path

import pytest

from tests.mutants.__main__ import seen
from tests.mutants.mutants import MUTANTS, Mutant

POSENC = Path(__file__).parent.parent.parent / "posenc"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.new.splitlines()[0])
def test_what_it_replaces_is_there_once(mutant: Mutant) -> None:
    assert (POSENC / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old
    if mutant.seen_by.endswith(".py"):
        assert (POSENC.parent / mutant.seen_by).exists()


@pytest.mark.unchecked
def test_the_copy_is_what_is_judged(tmp_path: Path) -> None:
    """Of an installed posenc, which has no wrong line, nothing would go red."""
    assert seen(MUTANTS[0], tmp_path) == "check_reference_scores"
