"""Results that are there: of a folder that was run, else those that posenc comes with."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

from posenc.errors import LabError

# What is read of every result.
NEEDED = frozenset({
    "arms", "command", "expectations", "failed", "level", "outcome", "seconds", "size",
})  # fmt: skip


def kept(name: str, out: Path | None = None) -> dict[str, Any] | None:
    """A claim's result; None where there is none. Raises LabError for a file that is none."""
    places: list[Any] = [out / "results"] if out is not None else []
    places.append(resources.files("posenc.claims").joinpath("results"))
    for place in places:
        file = place.joinpath(f"{name}.json")
        if file.is_file():
            return _result(file, f"posenc claims run {name}")
    return None


def _result(file: Any, command: str) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise LabError(f"{file} is no result of a claim ({error}): `{command}` makes it") from None
    if not isinstance(found, dict) or not found.keys() >= NEEDED:
        raise LabError(f"{file} is no result of a claim: `{command}` makes it")
    return found
