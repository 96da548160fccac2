"""`posenc list`: the encodings there are."""

import json
from typing import TYPE_CHECKING, Any

from posenc.chinese import FAMILIES, described
from posenc.commands.app import AsJson, errors
from posenc.commands.language import InLanguage, sayable
from posenc.words import Language, Texts, Words, columns

if TYPE_CHECKING:
    from posenc.encoding import Encoding


# What each kind does, in the order in which they are listed; a kind that is not here comes last.
KINDS: Texts = {
    "absolute": ("adds to the embeddings", "加到嵌入上"),
    "rotary": ("turns queries and keys", "旋转查询和键"),
    "bias": ("adds to scores by distance", "按距离给得分加上偏置"),
    "content": ("lets position meet what queries and keys hold", "位置与查询和键的内容相遇"),
    "scale": ("scales scores", "缩放得分"),
    "mask": ("hides keys", "遮住一些键"),
    "none": ("leaves everything as it is", "什么也不改变"),
}
MARKS: Texts = {
    "relative": ("relative", "相对"),
    "causal_only": ("causal only", "只用于因果"),
}


def list_(as_json: AsJson = False, language: InLanguage = "en") -> None:
    """List every encoding, by kind."""
    with errors():
        import posenc

        language = "en" if as_json else sayable(language)
        rows = [_describe(cls, language) for cls in posenc.encodings().values()]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    lines = {row["name"]: (row["name"], row["class"], _marks(row, language)) for row in rows}
    widths = [max(map(columns, column)) + 2 for column in zip(*lines.values(), strict=True)]
    for place, kind in enumerate(dict.fromkeys([*KINDS, *(row["family"] for row in rows)])):
        print(*[""] * (place > 0), _heading(kind, language), sep="\n")
        for row in (row for row in rows if row["family"] == kind):
            cells = zip(lines[row["name"]], widths, strict=True)
            shown = "".join(text + " " * (width - columns(text)) for text, width in cells)
            print(f"  {shown}{row['paper']}")
            print(f"      {row['summary']}")


def _heading(kind: str, language: Language) -> str:
    """A kind and what it does; of a stranger's kind its name is all that is known."""
    name = FAMILIES.get(kind, kind) if language == "zh" else kind
    colon = "：" if language == "zh" else ": "
    return f"{name}{colon}{Words(language, KINDS)(kind)}" if kind in KINDS else name


def _describe(cls: type["Encoding"], language: Language) -> dict[str, Any]:
    from posenc.catalogue import ALIASES

    return {
        "name": cls.name,
        "aliases": list(ALIASES.get(cls.name, ())),
        "class": cls.__name__,
        "family": cls.family,
        "summary": described(cls, language).partition("\n")[0],
        "causal_only": bool(cls.tags.causal_only),
        "relative": bool(cls.tags.translation_invariant),
        "paper": cls.paper,
    }


def _marks(row: dict[str, Any], language: Language) -> str:
    say = Words(language, MARKS)
    return ("，" if language == "zh" else ", ").join(say(key) for key in MARKS if row[key])
