"""The catalogue: a table of all encodings, and a page for each, in both languages.

    python tools/catalogue.py

writes the pages, which are not kept, for `make docs`.
"""

from pathlib import Path
from urllib.parse import urlsplit

import chinese
import gallery
from properties import Card, cards

import posenc
from posenc.encoding import Encoding

DOCS = Path(__file__).parent.parent / "docs"
FOLDERS = {language: DOCS / language / "reference" / "catalogue" for language in ("en", "zh")}

INDEX = {
    "en": """# Catalogue

Every encoding, with its formula, pictures and measured properties. This page and those below it are
generated (`make docs`); [properties](../properties.md) has all measurements side by side.

{table}
""",
    "zh": """# 目录

这里列出全部编码：各页有图和实测的性质，公式和构造参数见英文页。本页及以下各页由
`make docs` 生成；各项性质的并列比较见 {{en}}`英文的性质页 <reference/properties>`。

{table}
""",
}
TOCTREE = """
```{{toctree}}
:hidden:

{names}
```
"""

PAGE = {
    "en": """# {name}

{summary}. Kind: {family}. Source: {source}.

```{{eval-rst}}
.. autoclass:: posenc.{title}
```

Small instances, as the checks use them:

```text
{examples}
```

In a terminal `posenc show {name}` prints this, with `--out FOLDER` it draws the figures, and
`posenc check {name}` holds the class to its claims.
{pictures}
## Properties

What is measured, and of which model, is said in [properties](../properties.md).

{properties}""",
    "zh": """# {name}

{summary}。类别：{family}。来源：{source}。

类名是 `posenc.{title}`；公式、构造参数和报错见
{{en}}`英文页 <reference/catalogue/{name}>`。以下是检查所用的小例子：

```text
{examples}
```

在终端里，`posenc show {name}` 打印说明，加 `--out 文件夹` 就画图，
`posenc check {name}` 检验它是否名副其实。
{pictures}
## 性质

各项性质的含义和所用的模型，见 {{en}}`英文的性质页 <reference/properties>`。

{properties}""",
}
PICTURES = {"en": "\n## Pictures\n\n", "zh": "\n## 图\n\n"}
PICTURE = """```{{gallery}} {stem}
:alt: {alt}
```
"""
HEADS = {
    "en": ("name", "class", "what it does", "kind", "source"),
    "zh": ("名称", "类", "做法", "类别", "来源"),
}


def pages(measured: list[Card]) -> dict[Path, str]:
    """Every page of the catalogue, in both languages."""
    written = {}
    for language, folder in FOLDERS.items():
        names = "\n".join(posenc.encodings())
        index = INDEX[language].format(table=table(language, "{}.md"))
        written[folder / "index.md"] = index + TOCTREE.format(names=names)
        for card in measured:
            written[folder / f"{card.name}.md"] = page(card, language)
    return written


def page(card: Card, language: str) -> str:
    kind = posenc.encodings()[card.name]
    return PAGE[language].format(
        name=card.name,
        title=kind.__name__,
        summary=summary(kind, language),
        family=family(kind, language),
        source=source(kind),
        examples="\n".join(map(repr, kind.examples())),
        pictures=pictures(card.name, language),
        properties=property_rows(card, language),
    )


def pictures(name: str, language: str) -> str:
    """The gallery's figures of an encoding."""
    shown = []
    for figure in sorted(gallery.chosen(gallery.example(posenc.encodings()[name]))):
        title = figure.replace("_", " ")
        if language == "zh":
            title = chinese.FIGURES.get(figure, title)
        shown.append(PICTURE.format(stem=f"{name}-{figure}", alt=f"{name}: {title}"))
    return PICTURES[language] + "\n".join(shown) if shown else ""


def property_rows(card: Card, language: str) -> str:
    """What was measured of one encoding, a line for each property."""
    cells = {**card.geometry, **card.use}
    del cells["encoding"]
    if language == "zh":
        cells = {chinese.COLUMNS.get(key, key): chinese.value(cell) for key, cell in cells.items()}
    head = ("property", "found") if language == "en" else ("性质", "结果")
    lines = [head, ("---", "---"), *cells.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table(language: str, link: str = "") -> str:
    """One row per encoding: name, class, what it does, kind, source; its name links to `link`."""
    heads = HEADS[language]
    lines = [heads, ("---",) * len(heads)]
    for kind in posenc.encodings().values():
        name = f"`{kind.name}`"
        lines.append(
            (
                f"[{name}]({link.format(kind.name)})" if link else name,
                f"`{kind.__name__}`",
                summary(kind, language),
                family(kind, language),
                source(kind),
            )
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def summary(kind: type[Encoding], language: str) -> str:
    """The first line of the docstring, or what stands for it in Chinese."""
    english = (kind.__doc__ or "").strip().splitlines()[0].rstrip(".")
    return chinese.SUMMARIES.get(kind.name, english) if language == "zh" else english


def family(kind: type[Encoding], language: str) -> str:
    return chinese.FAMILIES.get(kind.family, kind.family) if language == "zh" else kind.family


def source(kind: type[Encoding]) -> str:
    paper = kind.paper
    if paper.startswith("arXiv:"):
        number = paper.removeprefix("arXiv:")
        return f"[{number}](https://arxiv.org/abs/{number})"
    return f"[{urlsplit(paper).netloc}]({paper})" if paper.startswith("https:") else paper


def main() -> None:
    for folder in FOLDERS.values():
        folder.mkdir(exist_ok=True)
        for path in folder.glob("*.md"):
            path.unlink()
    for path, text in pages(cards()).items():
        path.write_text(text)


if __name__ == "__main__":
    main()
