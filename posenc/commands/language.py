"""--language, the same for all commands that say more than a line."""

import sys
from typing import Annotated, TextIO

from typer import Option

from posenc.commands.braille import writable
from posenc.words import Language

InLanguage = Annotated[
    Language,
    Option(
        "--language",
        "--lang",
        envvar="POSENC_LANGUAGE",
        help="Of what is said to people; --json is in English.",
    ),
]


def sayable(language: Language, stream: TextIO | None = None) -> Language:
    """The language, or English where the terminal, or what stands for it, has no Chinese."""
    return language if writable(stream or sys.stdout, "中") else "en"
