"""What each encoding is in Chinese: a text for each beside this file, named as the encoding is.

A text is what the docstring is in English. Its first line says what the encoding does, below the
line 参数 stands a line for each setting, "- `name`：words", and below 标签, which comes last,
likewise the reason for each tag that has one. An encoding without a text is shown in English.
"""

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc.encoding import Encoding

FOLDER = Path(__file__).parent
SETTINGS, TAGS = "参数", "标签"
ENTRY = re.compile(r"^- `(\w+)`：(.+)$", re.MULTILINE)

FAMILIES = {
    "absolute": "绝对",
    "bias": "偏置",
    "content": "与内容相关",
    "mask": "掩码",
    "none": "无",
    "rotary": "旋转",
    "scale": "缩放",
}


def described(kind: type["Encoding"], language: str = "zh") -> str:
    """All that is said of a class; in English what its docstring says."""
    found = _found(kind) if language == "zh" else None
    return (inspect.getdoc(kind) or "") if found is None else found.partition(_heading(TAGS))[0]


def summary(kind: type["Encoding"], language: str = "zh") -> str:
    """What it does in a line, without the full stop."""
    return described(kind, language).partition("\n")[0].rstrip(".。")


def family(kind: type["Encoding"], language: str = "zh") -> str:
    return FAMILIES.get(kind.family, kind.family) if language == "zh" else kind.family


def entries(kind: type["Encoding"], heading: str) -> dict[str, str]:
    """What Chinese text says of each setting, or of each tag that gives a reason."""
    _, _, below = (_found(kind) or "").partition(_heading(heading))
    return dict(ENTRY.findall(below.partition("\n\n")[0]))


def _found(kind: type["Encoding"]) -> str | None:
    from posenc.encodings import members

    # A user's class may be called as one of ours is, or inherit its name.
    if members().get(kind.name) is not kind:
        return None
    path = FOLDER / f"{kind.name}.md"
    return path.read_text("utf-8").rstrip("\n") if path.exists() else None


def _heading(name: str) -> str:
    return f"\n\n{name}：\n\n"
