"""The numbers that the explorer's JavaScript is held to are those of the library as it is now."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.explorer import fixtures, panels

FOLDER = Path(__file__).parent / "fixtures"


def stored(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


def differences(found: Any, expected: Any, where: str = "") -> list[str]:
    """Where two JSON values differ by more than rounding."""
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        pairs = ((f".{key}", found[key], expected[key]) for key in found)
        return [each for key, a, b in pairs for each in differences(a, b, where + key)]
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = ((f"[{n}]", a, b) for n, (a, b) in enumerate(zip(found, expected, strict=True)))
        return [each for key, a, b in pairs for each in differences(a, b, where + key)]
    numbers = all(type(value) in (int, float) for value in (found, expected))
    if numbers and math.isclose(found, expected, rel_tol=1e-10, abs_tol=1e-10):
        return []
    return [] if found == expected else [f"{where}: {found!r}, but the file has {expected!r}"]


@pytest.mark.parametrize(
    ("name", "make"), [("encodings", fixtures.encodings), ("values", fixtures.values)]
)
def test_fixtures_are_fresh(name: str, make: Callable[[], Any]) -> None:
    # Through JSON, where tuples become lists.
    stale = differences(json.loads(json.dumps(make())), stored(name))
    assert not stale, f"run python -m tests.explorer.fixtures; {stale[:5]}"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is missing: apt-get install nodejs")
def test_panels_are_fresh() -> None:
    found = [panels.computed(case) for case in panels.asked_of_node()]
    stale = differences(json.loads(json.dumps(found)), stored("panels"))
    assert not stale, f"run python -m tests.explorer.fixtures; {stale[:5]}"


def test_fixtures_stay_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 400_000
