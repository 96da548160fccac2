"""What the commands share: the app they hang on, --json, and how an error is shown."""

import contextlib
import importlib
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from posenc.errors import PosencError, installing

# Wherever this version of typer has it from.
UsageError: Any = typer.BadParameter.__base__


class Command(NamedTuple):
    """module:function in this package, and what --help says: the function's first sentence."""

    place: str
    summary: str


# In the order of --help, which loads none of them.
COMMANDS = {
    "advise": Command(
        "advise:advise",
        "Tell what was measured for and against each encoding at a length, for a kind of task.",
    ),
    "bench": Command(
        "bench:bench", "Time posenc against peers and against no position, and write a page."
    ),
    "list": Command("catalogue:list_", "List every encoding, by kind."),
    "check": Command(
        "check:check",
        "Hold encodings to their claims with the public check suite; exit code 1 if one fails.",
    ),
    "claims": Command(
        "claims:app", "Run what was published about encodings, and see whether it holds."
    ),
    "compare": Command(
        "compare:compare",
        "Train a small model with each encoding, test it at longer lengths, and write a report.",
    ),
    "convert": Command(
        "convert:convert",
        "Copy weights in the other rotary layout, or write a configuration for another engine.",
    ),
    "doctor": Command(
        "doctor:doctor",
        "Tell what is wrong with a model's positions and what engines drop; exit code 1 if grave.",
    ),
    "explore": Command(
        "explore:explore",
        "Write the explorer, one HTML file that needs no network, and open it in the browser.",
    ),
    "extend": Command(
        "extend:extend",
        "Measure how far a trained rotary model reads with each method, and write a report.",
    ),
    "inspect": Command(
        "inspect:inspect",
        "Look into a trained model: what positions do to its tables, scores, attention and output.",
    ),
    "lab": Command(
        "lab:app",
        "Run any task of the lab, and look at what was run: numbers, a table, a map.",
    ),
    "show": Command(
        "show:show",
        "Show one encoding: formula, source, settings, tags, examples; or draw it.",
    ),
}
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
        from posenc.commands.help import print_help

        options = (parameter.get_help_record(ctx) for parameter in self.get_params(ctx))
        commands = ((name, command.summary) for name, command in COMMANDS.items())
        print_help(self.get_usage(ctx), self.help or "", filter(None, options), commands)

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
    help="Position encoding for Transformers: look at encodings, check them, compare them.",
    no_args_is_help=True,
    **PLAIN,
)


@app.callback()
def _group() -> None:
    # Without it, an app whose commands come later is none.
    pass


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
        print(f"posenc: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
