"""What the commands share: the app they hang on, --json, and how an error is shown."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from posenc.errors import PosencError

app = typer.Typer(
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
