"""What the tags of an encoding mean, in both languages."""

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from posenc import chinese
from posenc.words import Language, Texts, Words

if TYPE_CHECKING:
    from posenc.encoding import Encoding

TEXTS: Texts = {
    "causal_only": ("for causal attention only", "只用于因果注意力"),
    "length_dependent": ("depends on how long the input is", "随输入的总长度而变"),
    "needs_context": ("reads the input of its layer", "要读本层的输入"),
    "needs_extent": ("must know how far positions reach", "要知道位置最远到哪里"),
    "translation_invariant": ("scores depend on distances alone", "得分只取决于距离"),
    "norm_preserving": ("keeps the lengths of queries and keys", "不改变查询和键的长度"),
    "every_layer": ("acts again before every layer", "在每一层之前都起作用"),
    "compiles": ("compiles as one graph", "能作为一整张图编译"),
    "exports": ("exports as one graph", "能作为一整张图导出"),
    "comparable": ("can be trained by `posenc compare`", "能用 `posenc compare` 训练和比较"),
}


class Tag(NamedTuple):
    """Its name, whether it is claimed, and what it means, or why it is not claimed."""

    name: str
    claimed: bool
    meaning: str


def tags(kind: type["Encoding"], language: Language) -> list[Tag]:
    """The tags of a class; those of an instance may be others."""
    say = Words(language, TEXTS)
    known = chinese.entries(kind, chinese.TAGS) if language == "zh" else {}
    found = []
    for field in dataclasses.fields(kind.tags):
        value = getattr(kind.tags, field.name)
        reason = known.get(field.name, value).rstrip("。") if isinstance(value, str) else None
        found.append(Tag(field.name, value is True, reason or say(field.name)))
    return found
