"""Results that are there: of a folder that was run, else those that posenc comes with."""

import json
from importlib import resources
from pathlib import Path
from typing import Any


def kept(name: str, out: Path | None = None) -> dict[str, Any] | None:
    """A claim's result; None where there is none."""
    places: list[Any] = [out / "results"] if out is not None else []
    places.append(resources.files("posenc.claims").joinpath("results"))
    for place in places:
        file = place.joinpath(f"{name}.json")
        if file.is_file():
            return json.loads(file.read_text("utf-8"))
    return None
