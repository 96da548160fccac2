"""What the commands share: the app they hang on, --json, and how an error is shown."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from posenc.errors import PosencError

# Wherever this version of typer has it from.
UsageError: Any = typer.BadParameter.__base__


class OneLine(TyperGroup):
    """Answers a command line that it does not understand in one line, as posenc's own errors."""

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            code = super().main(*args, **options | {"standalone_mode": False})
        except UsageError as error:
            code = error.exit_code
            message, asked = (
                error.format_message(),
                error.ctx.command_path if error.ctx else "posenc",
            )
            # Without a command this is the help, which typer has printed.
            if message:
                print(f"posenc: {' '.join(message.split())} (see {asked} --help)", file=sys.stderr)
        except typer.Abort:
            code = 1
        sys.exit(code)


app = typer.Typer(
    cls=OneLine,
    help="Position encoding for Transformers: look at encodings, check them, compare them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
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
        extra = {"safetensors": "lab", "matplotlib": "plot"}.get(missing)
        if extra is None:
            raise
        print(f'This needs {missing}: pip install "posenc[{extra}]"', file=sys.stderr)
        raise typer.Exit(1) from None
    except OSError as error:
        print(f"posenc: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
