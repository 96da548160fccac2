"""What the commands share: the app they hang on, --json, and how an error is shown."""

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from posenc.command_list import ABOUT, COMMANDS
from posenc.errors import PosencError, installing

if TYPE_CHECKING:
    from rich.table import Table

# Wherever this version of typer has it from.
UsageError: Any = typer.BadParameter.__base__


PLAIN: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False}


class Loaded(Mapping[str, Any]):
    """The commands by name, each loaded when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        module, _, function = COMMANDS[name].place.partition(":")
        found = getattr(importlib.import_module(f"posenc.commands.{module}"), function)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(**PLAIN)
            alone.command(name)(found)
            found = alone
        command = typer.main.get_command(found)
        command.name = name
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class OneLine(TyperGroup):
    """Answers a command line that it does not understand in one line, as posenc's own errors."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": Loaded()})

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from posenc.command_help import print_help

        options = (parameter.get_help_record(ctx) for parameter in self.get_params(ctx))
        print_help(self.get_usage(ctx), filter(None, options))

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            code = super().main(*args, **options | {"standalone_mode": False})
        except UsageError as error:
            code = error.exit_code
            message, asked = (
                error.format_message(),
                error.ctx.command_path if error.ctx else "posenc",
            )
            # Without a command this is the help, which is printed.
            if message:
                print(f"posenc: {' '.join(message.split())} (see {asked} --help)", file=sys.stderr)
        except typer.Abort:
            code = 1
        sys.exit(code)


app = typer.Typer(
    cls=OneLine,
    help=ABOUT,
    no_args_is_help=True,
    **PLAIN,
)


@app.callback()
def _group() -> None:
    # Without it, an app whose commands come later is none.
    pass


def print_table(table: "Table") -> None:
    """Print every letter of its cells: as wide as they are, and folded where a terminal ends."""
    from rich.console import Console

    console = Console()
    for column in table.columns:
        # Otherwise numbers lose their last digits.
        column.overflow = "fold"
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # No table is measured wider than the console.
        console.width = 10_000
        console.width = console.measure(table).maximum
    console.print(table, markup=False)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """What posenc raises on purpose becomes a message on stderr and exit code 2."""
    try:
        yield
    except PosencError as error:
        print(f"posenc: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        extra = {"safetensors": "lab", "scipy": "lab", "matplotlib": "plot"}.get(missing)
        if extra is None:
            raise
        print(f"This needs {missing}: {installing(extra)}", file=sys.stderr)
        raise typer.Exit(1) from None
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.ENOSPC) and error.filename is None:
            # Of the output, as no file is named: `posenc.cli` ends it.
            raise
        print(f"posenc: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
