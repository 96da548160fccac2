"""`posenc show`: one encoding, in words and in figures."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from posenc.chinese import described
from posenc.commands.app import errors
from posenc.commands.braille import writable
from posenc.commands.language import InLanguage, sayable
from posenc.commands.settings import build, parse, strangers
from posenc.commands.signature import signature
from posenc.commands.tags import tags
from posenc.errors import PosencError, UnknownNameError, UnsupportedError
from posenc.words import Language, Texts, Words

if TYPE_CHECKING:
    from posenc.encoding import Encoding

FOLDER = Path("posenc-figures")
TEXTS: Texts = {
    "others": ("also called {names}", "也叫 {names}"),
    "tags": ("tags", "标签"),
    "settings": ("with these settings", "用这些参数"),
    "examples": ("examples", "例子"),
    "figures": ("figures: {command}", "画图：{command}"),
}


def show(
    name: Annotated[
        str,
        Argument(
            help="A name of `posenc list`, one of the literature (rope), or package.module:Class."
        ),
    ],
    settings: Annotated[
        list[str] | None,
        Argument(
            metavar="[SETTING=VALUE]...",
            help='Settings in place of those of its first example: dim=64 "scaling=YaRN(4, 4096)".',
        ),
    ] = None,
    figure: Annotated[
        list[str] | None,
        Option(help="A figure to draw; can be repeated.", show_default="all, with --out"),
    ] = None,
    out: Annotated[
        Path | None, Option(help="Folder of the figures.", show_default=str(FOLDER))
    ] = None,
    format_: Annotated[Literal["svg", "png"], Option("--format", help="Of the files.")] = "svg",
    theme: Annotated[Literal["light", "dark"], Option(help="Of the figures.")] = "light",
    language: InLanguage = "en",
    length: Annotated[
        int | None, Option(help="Tokens shown.", show_default="what suits the figure")
    ] = None,
    pair: Annotated[int, Option(help="Which pair, in circle and helix.")] = 0,
    head: Annotated[int, Option(help="Which head, where heads differ.")] = 0,
) -> None:
    """Show one encoding: formula, source, settings, tags, examples; or draw it.

    A curve of it is sketched in the terminal: the score by distance, or the first dimensions of
    what is added to embeddings. With --figure or --out it is drawn, each figure into a file of its
    own.
    """
    with errors():
        from posenc.catalogue import find

        values = parse(settings or ())
        with strangers(f"encoding {name!r} cannot be imported"):
            kind = find(name)
        if not figure and out is None:
            language = sayable(language)
            _tell(kind, values, _sketched(kind, values, length, head, language), language)
            return
        encoding = build(kind, values)
        called = f"{kind.__name__} cannot be drawn"
        with strangers(called):
            # Said before anything is imported that takes seconds.
            import matplotlib  # noqa: F401

            from posenc.analysis import plot

            drawn = plot.figures(encoding, length=length, pair=pair, head=head)
        folder = FOLDER if out is None else out
        for each in _chosen(kind, figure, drawn):
            with strangers(f"{called} as {each}"):
                picture = drawn[each](theme=theme, language=language)
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / _file(kind, each, theme, language, format_)
            plot.save(picture, path)
            print(path)


def _sketched(
    kind: type["Encoding"],
    values: dict[str, object],
    length: int | None,
    head: int,
    language: Language,
) -> list[str]:
    """A curve of it as text, where the terminal can write braille; a stranger may have none."""
    from posenc.commands.sketch import sketch

    if not writable(sys.stdout):
        return []
    try:
        with strangers(f"{kind.__name__} cannot be sketched"):
            encoding = build(kind, values)
    except PosencError:
        if values:
            raise
        return []
    try:
        with strangers(f"{kind.__name__} cannot be sketched"):
            return list(sketch(encoding, length, head, language))
    except PosencError:
        if length is not None or head:
            raise
        return []


def _tell(
    kind: type["Encoding"], values: dict[str, object], sketched: list[str], language: Language
) -> None:
    """What there is to say in words; settings are tried, and the encoding shown that they make."""
    from posenc.catalogue import ALIASES

    say = Words(language, TEXTS)
    shown = repr(build(kind, values)) if values else None
    with strangers(f"{kind.__name__}.examples() fails"):
        examples = [repr(example) for example in kind.examples()]
    print(f"{signature(kind)}\n")
    print(described(kind, language))
    if others := ALIASES.get(kind.name):
        print(f"\n{say('others', names=', '.join(others))}")
    if sketched:
        print(*("", *sketched), sep="\n")
    print(f"\n{say('tags')}")
    for tag in tags(kind, language):
        print(f"    {tag.name:22} {tag.claimed!s:6} {tag.meaning}")
    if shown is not None:
        print(f"\n{say('settings')}\n    {shown}")
    print(f"\n{say('examples')}")
    for example in examples:
        print(f"    {example}")
    command = f"posenc show {kind.name or kind.__name__} --out {FOLDER}"
    print(f"\n{say('figures', command=command)}")


def _chosen(
    kind: type["Encoding"], asked: list[str] | None, drawn: Mapping[str, object]
) -> list[str]:
    """The figures asked for, once each; all that apply where none was."""
    if not asked:
        return list(drawn)
    from posenc.analysis import plot

    for name in asked:
        if name in plot.FIGURES and name not in drawn:
            raise UnsupportedError(
                f"{kind.__name__} has nothing to show as {name}: it has {', '.join(drawn)}"
            )
        if name not in drawn:
            raise UnknownNameError("figure", name, drawn)
    return list(dict.fromkeys(asked))


def _file(kind: type["Encoding"], figure: str, theme: str, language: str, ending: str) -> str:
    # A stranger may call an encoding anything, and a file may not.
    name = re.sub(r"[^\w-]+", "_", kind.name or kind.__name__)
    spoken = "" if language == "en" else f".{language}"
    return f"{name}-{figure}.{theme}{spoken}.{ending}"
