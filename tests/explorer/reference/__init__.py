"""What the explorer's JavaScript is held to: numbers of the library, in float64.

A test writes them into a copy of the page's sources, where node compares the page with them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.explorer.reference import (
    bias,
    configs,
    copied,
    examples,
    functions,
    lessons,
    stretching,
    waves,
)

PARTS: dict[str, Callable[[], Any]] = {
    "encodings": examples.encodings,
    "values": functions.values,
    "clock": lambda: [bias.clock(**case) for case in bias.CLOCKS],
    "bias": lambda: [bias.bias(case) for case in bias.BIASES],
    "masks": lambda: [stretching.masks(case) for case in stretching.MASKS],
    "stretching": lambda: [stretching.stretching(case) for case in stretching.STRETCHES],
    "configs": lambda: [configs.config(*case) for case in configs.configs()],
    "published": configs.published,
    "waves": lambda: [waves.wave(*case) for case in waves.WAVES],
    "lessons": lessons.panels,
    "trained": lambda: [waves.trained(table) for table in ("learned", "floater")],
}


def write(folder: Path) -> None:
    """Every part as a file of `folder`/fixtures; panels are asked in `folder` what they copy."""
    fixtures = folder / "fixtures"
    fixtures.mkdir()
    parts = {name: part() for name, part in PARTS.items()}
    parts["panels"] = [copied.computed(case) for case in copied.asked_of_node(folder)]
    for name, part in parts.items():
        (fixtures / f"{name}.json").write_text(json.dumps(part))
