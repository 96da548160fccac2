"""`posenc --help`, in the panels that typer draws.

Its own bring a parser of Markdown along; and where --help is all that was asked, typer itself would
be half of the wait.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from posenc.command_list import ABOUT, COMMANDS

# What typer says of a group of commands; a test holds these to it.
CALL = "[OPTIONS] COMMAND [ARGS]..."
OPTIONS = (("--help", "Show this message and exit."),)

Rows = Iterable[tuple[str, str]]


def print_alone() -> None:
    """The help of `posenc`, without typer."""
    print_help(f"Usage: {Path(sys.argv[0]).name} {CALL}", OPTIONS)
    # As typer ends it.
    print()


def print_help(usage: str, options: Rows) -> None:
    """Usage, what it is about, and a panel of two columns for the options and for the commands."""
    console = Console(highlight=False)
    label, _, call = usage.partition(" ")
    console.print(Padding(Text.assemble((label, "bold yellow"), (f" {call}", "bold")), 1))
    console.print(Padding(Text(ABOUT), (0, 1, 1, 1)))
    commands = ((name, command.summary) for name, command in COMMANDS.items())
    for title, rows in (("Options", options), ("Commands", commands)):
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(style="bold cyan", no_wrap=True)
        table.add_column(ratio=1)
        for name, text in rows:
            table.add_row(Text(name), Text(text))
        # A string would be read as markup, which loads the names of all emoji.
        panel = Panel(table, border_style="dim", title=Text(title), title_align="left")
        console.print(panel)
