"""The first page of the catalogue: every encoding as a picture that leads to its page, by kind."""

import gallery

import posenc
from posenc.chinese import family, summary
from posenc.encoding import Encoding
from posenc.words import Language

HEAD: dict[Language, str] = {
    "en": """# Catalogue

Every encoding, by its kind. A picture leads to the formula, more pictures and measured properties.
It shows the vectors of what joins the embeddings, one row for each position; who sees whom under a
mask; and of everything else the scores among equal tokens, one row for each query. Weights are as
first drawn, before any training.

This page and those below it are generated (`make docs`); [properties](../properties.md) has all
measurements side by side.
""",
    "zh": """# 目录

这里按类别列出全部编码，点一张图就到它的一页：公式、参数、报错、更多的图和实测的性质。
并入嵌入的编码，图上是各个位置的向量，每个位置一行；掩码，画的是谁能看见谁；
其余的都是相同词元之间的得分，每个查询一行。可训练的权重都是初始值。

本页及以下各页由 `make docs` 生成；各项性质的并列比较见[性质](../properties.md)。
""",
}
# What the kinds do, in the order in which they are shown.
KINDS: dict[str, dict[Language, str]] = {
    "absolute": {
        "en": "A vector for each position, which joins the embeddings before the first layer.",
        "zh": "每个位置一个向量，在第一层之前并入嵌入。",
    },
    "rotary": {
        "en": "Queries and keys are turned by angles that follow from their positions.",
        "zh": "查询和键按各自的位置转过一定的角度。",
    },
    "bias": {
        "en": "A number that follows from the distance is added to each score.",
        "zh": "给每个得分加上一个由距离决定的数。",
    },
    "content": {
        "en": "What position adds to a score depends on the tokens, too.",
        "zh": "位置给得分带来什么，还取决于词元的内容。",
    },
    "mask": {
        "en": "Some tokens are hidden from some queries.",
        "zh": "对一些查询遮住一些词元。",
    },
    "scale": {
        "en": "All scores of a query are multiplied by one number.",
        "zh": "每个查询的全部得分都乘以同一个数。",
    },
    "none": {"en": "Nothing is added to any score.", "zh": "不给任何得分加上什么。"},
}
GROUP = """
## {title}

{sentence}

:::::{{container}} cards
{cards}:::::
"""
CARD = """::::{{container}} card
```{{gallery}} {name}-{thumbnail}
:alt: {name}{colon}{face}
```
[`{name}`]({name}.md)

{summary}
::::
"""
FACES: dict[Language, dict[str, str]] = {
    "en": {"heatmap": "vectors of positions", "mask": "who sees whom", "scores": "scores"},
    "zh": {"heatmap": "各个位置的向量", "mask": "谁能看见谁", "scores": "得分"},
}
CONTENTS = """
```{{toctree}}
:hidden:

{names}
```
"""


def index(language: Language) -> str:
    """The whole page."""
    every = posenc.encodings().values()
    families = dict.fromkeys([*KINDS, *(kind.family for kind in every)])
    alike = ([kind for kind in every if kind.family == name] for name in families)
    return HEAD[language] + "".join(group(kinds, language) for kinds in alike if kinds) + contents()


def contents() -> str:
    """What Sphinx reads the order of the pages from."""
    return CONTENTS.format(names="\n".join(posenc.encodings()))


def group(kinds: list[type[Encoding]], language: Language) -> str:
    """The encodings of one kind."""
    return GROUP.format(
        title=family(kinds[0], language).capitalize(),
        sentence=KINDS.get(kinds[0].family, {}).get(language, ""),
        cards="".join(card(kind, language) for kind in kinds),
    )


def card(kind: type[Encoding], language: Language) -> str:
    return CARD.format(
        name=kind.name,
        thumbnail=gallery.THUMBNAIL,
        colon="：" if language == "zh" else ": ",
        face=FACES[language][gallery.face(gallery.example(kind))],
        summary=summary(kind, language),
    )
