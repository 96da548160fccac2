"""`posenc list`: the encodings there are."""

import inspect
import json
from typing import TYPE_CHECKING, Any

from posenc.commands.app import AsJson, errors

if TYPE_CHECKING:
    from posenc.encoding import Encoding


# What each kind does, in the order in which they are listed; a kind that is not here comes last.
KINDS = {
    "absolute": "adds to the embeddings",
    "rotary": "turns queries and keys",
    "bias": "adds to scores by distance",
    "content": "lets position meet what queries and keys hold",
    "scale": "scales scores",
    "mask": "hides keys",
    "none": "leaves everything as it is",
}


def list_(as_json: AsJson = False) -> None:
    """List every encoding, by kind."""
    with errors():
        import posenc

        rows = [_describe(cls) for cls in posenc.encodings().values()]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    lines = {row["name"]: (row["name"], row["class"], _marks(row)) for row in rows}
    widths = [max(map(len, column)) + 2 for column in zip(*lines.values(), strict=True)]
    for place, kind in enumerate(dict.fromkeys([*KINDS, *(row["family"] for row in rows)])):
        print(*[""] * (place > 0), ": ".join(filter(None, (kind, KINDS.get(kind)))), sep="\n")
        for row in (row for row in rows if row["family"] == kind):
            line = lines[row["name"]]
            columns = (text.ljust(width) for text, width in zip(line, widths, strict=True))
            print("  " + "".join(columns) + row["paper"])
            print(f"      {row['summary']}")


def _describe(cls: type["Encoding"]) -> dict[str, Any]:
    from posenc.catalogue import ALIASES

    return {
        "name": cls.name,
        "aliases": list(ALIASES.get(cls.name, ())),
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
