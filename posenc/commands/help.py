"""`posenc --help`, in the panels that typer draws, whose own bring a parser of Markdown along."""

from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

Rows = Iterable[tuple[str, str]]


def print_help(usage: str, about: str, options: Rows, commands: Rows) -> None:
    """Usage, what it is about, and a panel of two columns for the options and for the commands."""
    console = Console(highlight=False)
    label, _, call = usage.partition(" ")
    console.print(Padding(Text.assemble((label, "bold yellow"), (f" {call}", "bold")), 1))
    console.print(Padding(Text(about), (0, 1, 1, 1)))
    for title, rows in (("Options", options), ("Commands", commands)):
        table = Table.grid(padding=(0, 2), expand=True)
        table.add_column(style="bold cyan", no_wrap=True)
        table.add_column(ratio=1)
        for name, text in rows:
            table.add_row(Text(name), Text(text))
        panel = Panel(table, border_style="dim", title=title, title_align="left")
        console.print(panel)
