"""--language, the same for all commands that say more than a line."""

import sys
from typing import Annotated

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


def sayable(language: Language) -> Language:
    """The language, or English where the terminal cannot write Chinese."""
    return language if writable(sys.stdout, "中") else "en"
