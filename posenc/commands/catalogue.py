"""`posenc list`: the encodings there are."""

import inspect
import json
from typing import TYPE_CHECKING, Any

from posenc.commands.app import AsJson, errors

if TYPE_CHECKING:
    from posenc.encoding import Encoding


def list_(as_json: AsJson = False) -> None:
    """List every encoding."""
    with errors():
        import posenc

        rows = [_describe(cls) for cls in posenc.encodings().values()]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    lines = [(row["name"], row["class"], row["family"], _marks(row)) for row in rows]
    widths = [max(map(len, column)) + 2 for column in zip(*lines, strict=True)]
    for row, line in zip(rows, lines, strict=True):
        columns = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        print("".join(columns) + row["paper"])
        print(f"    {row['summary']}")


def _describe(cls: type["Encoding"]) -> dict[str, Any]:
    return {
        "name": cls.name,
        "class": cls.__name__,
        "family": cls.family,
        "summary": (inspect.getdoc(cls) or "").partition("\n")[0],
        "causal_only": bool(cls.tags.causal_only),
        "relative": bool(cls.tags.translation_invariant),
        "paper": cls.paper,
    }


def _marks(row: dict[str, Any]) -> str:
    keys = ("relative", "causal_only")
    return ", ".join(key.replace("_", " ") for key in keys if row[key])
