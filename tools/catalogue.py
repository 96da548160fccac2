"""The catalogue: all encodings as pictures, and a page for each, in both languages.

    python tools/catalogue.py

writes the pages, which are not kept, for `make docs`.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import chinese
import gallery
import published_models
from catalogue_index import index
from properties import Card, cards

import posenc
from posenc.chinese import described, family, summary
from posenc.commands.signature import signature
from posenc.commands.tags import tags
from posenc.encoding import Encoding
from posenc.words import LANGUAGES, Language

DOCS = Path(__file__).parent.parent / "docs"
FOLDERS: dict[Language, Path] = {
    language: DOCS / language / "reference" / "catalogue" for language in LANGUAGES
}

PAGE = {
    "en": """# {name}

{summary}. Kind: {family}. Source: {source}.

```{{eval-rst}}
.. autoclass:: posenc.{title}
```

## Tags

What the class claims of itself; an instance may replace its own, for settings change what is true.

{tags}
## Examples

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

类名是 `posenc.{title}`，这样构造：

```text
{signature}
```

{described}

## 标签

类对自己的声明；实例可以有自己的标签，因为参数会改变哪些话成立。

{tags}
## 例子

检查所用的小例子：

```text
{examples}
```

在终端里，`posenc show {name} --language zh` 打印这些说明，加 `--out 文件夹` 就画图，
`posenc check {name}` 检验它是否名副其实。
{pictures}
## 性质

各项性质的含义和所用的模型，见[性质](../properties.md)。

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
TAG_HEADS = {"en": ("tag", "claimed", "meaning, or why not"), "zh": ("标签", "声明", "含义或原因")}
INDENTED = re.compile(r"(?:^    .*\n)+(?:\n(?:    .*\n)+)*", re.MULTILINE)


def pages(measured: list[Card]) -> dict[Path, str]:
    """Every page of the catalogue, in both languages."""
    written, models = {}, published_models.published()
    for language, folder in FOLDERS.items():
        written[folder / "index.md"] = index(language)
        for card in measured:
            used = published_models.users(card.name, models, language)
            written[folder / f"{card.name}.md"] = page(card, language) + used
    return written


def page(card: Card, language: Language) -> str:
    kind = posenc.encodings()[card.name]
    return PAGE[language].format(
        name=card.name,
        title=kind.__name__,
        signature=signature(kind),
        described=body(kind, language),
        tags=tag_rows(kind, language),
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


def body(kind: type[Encoding], language: Language) -> str:
    """What is said of it beyond the first line; formulas in fences, as they are written."""
    _, _, said = described(kind, language).partition("\n\n")
    return INDENTED.sub(fenced, said + "\n").rstrip("\n")


def fenced(formula: re.Match[str]) -> str:
    return "```text\n" + re.sub("^    ", "", formula[0], flags=re.MULTILINE) + "```\n"


def tag_rows(kind: type[Encoding], language: Language) -> str:
    """What it claims, and why not, a line for each tag."""
    words = {"en": ("no", "yes"), "zh": ("否", "是")}[language]
    lines = [(f"`{tag.name}`", words[tag.claimed], tag.meaning) for tag in tags(kind, language)]
    heads = TAG_HEADS[language]
    return markdown([heads, ("---",) * len(heads), *lines])


def property_rows(card: Card, language: str) -> str:
    """What was measured of one encoding, a line for each property."""
    cells = {**card.geometry, **card.use}
    del cells["encoding"]
    if language == "zh":
        cells = {chinese.COLUMNS.get(key, key): chinese.value(cell) for key, cell in cells.items()}
    head = ("property", "found") if language == "en" else ("性质", "结果")
    return markdown([head, ("---", "---"), *cells.items()])


def markdown(lines: Iterable[Iterable[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table(language: Language) -> str:
    """One row per encoding: name, class, what it does, kind, source."""
    heads = HEADS[language]
    lines = [heads, ("---",) * len(heads)]
    for kind in posenc.encodings().values():
        names = (f"`{kind.name}`", f"`{kind.__name__}`")
        told = (summary(kind, language), family(kind, language), source(kind))
        lines.append((*names, *told))
    return markdown(lines).rstrip("\n")


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
