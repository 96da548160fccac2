"""The commands of `posenc`: each is one call into the library, and how its answer is shown."""

import contextlib
import dataclasses
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from posenc.errors import PosencError

if TYPE_CHECKING:
    from posenc.encoding import Encoding
    from posenc.lab.folder import Run

app = typer.Typer(
    help="Position encoding for Transformers: look at encodings, check them, compare them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List every encoding."""
    with _errors():
        import posenc

        rows = [_describe(cls) for cls in posenc.encodings().values()]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("name", "class", "family", "what it does", "causal only", "relative", "paper")
    for row in rows:
        marks = ["yes" if row[key] else "" for key in ("causal_only", "relative")]
        table.add_row(
            row["name"], row["class"], row["family"], row["summary"], *marks, row["paper"]
        )
    Console().print(table)


@app.command()
def show(name: Annotated[str, typer.Argument(help="A name of `posenc list`.")]) -> None:
    """Show one encoding: formula, source, settings, tags, examples."""
    with _errors():
        from posenc.catalogue import find

        cls = find(name)
        examples = [repr(example) for example in cls.examples()]
    print(f"{cls.__name__}{inspect.signature(cls)}\n")
    print(inspect.getdoc(cls))
    print("\ntags")
    for field in dataclasses.fields(cls.tags):
        print(f"    {field.name:22} {getattr(cls.tags, field.name)}")
    print("\nexamples")
    for example in examples:
        print(f"    {example}")


@app.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME | package.module:Class]...", help="What to check."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Check every encoding.")] = False,
    as_json: AsJson = False,
) -> None:
    """Hold encodings to their claims with the public check suite; exit code 1 if one fails."""
    with _errors():
        import posenc
        from posenc.catalogue import find
        from posenc.testing import run_checks

        chosen = list(posenc.encodings()) if everything else names or []
        if not chosen:
            raise typer.BadParameter("name an encoding, or give --all")
        results = [
            {"encoding": name, "example": repr(example), **dataclasses.asdict(result)}
            for name, cls in [(name, find(name)) for name in chosen]
            for example in cls.examples()
            for result in run_checks(example)
        ]
    failed = [result for result in results if result["status"] == "failed"]
    if as_json:
        print(json.dumps(results, indent=2))
    else:
        _print_checks(results, failed)
    raise typer.Exit(1 if failed else 0)


@app.command()
def compare(
    encodings: Annotated[
        str, typer.Option(help="Names, or package.module:Class, between commas.")
    ] = "none,learned,sinusoidal,rotary,alibi,t5",
    train_length: Annotated[int, typer.Option(help="Bytes of text in a training example.")] = 64,
    test_lengths: Annotated[
        str, typer.Option(help="Lengths to test at, between commas; the train length is added.")
    ] = "64,128,256,512",
    dim: Annotated[int, typer.Option(help="Width of the model.")] = 128,
    depth: Annotated[int, typer.Option(help="Layers.")] = 2,
    heads: Annotated[int, typer.Option(help="Attention heads.")] = 4,
    batch: Annotated[int, typer.Option(help="Examples in a training step.")] = 32,
    steps: Annotated[
        int | None, typer.Option(help="Training steps of each run.", show_default="800")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Budget of all runs together, instead of --steps.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How often each encoding is trained.")] = 2,
    text: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file or folder to read instead of Python's own source; can be repeated."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("posenc-compare"),
    jobs: Annotated[
        int | None, typer.Option(help="Runs at a time.", show_default="one for each core")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print report.json; progress goes to stderr.")
    ] = False,
) -> None:
    """Train a small model with each encoding, test it at longer lengths, and write a report."""
    with _errors():
        from posenc.lab.compare import Comparison
        from posenc.lab.compare import compare as run
        from posenc.lab.progress import display

        comparison = Comparison(
            encodings=_names(encodings),
            train_length=train_length,
            test_lengths=_lengths(test_lengths),
            dim=dim,
            depth=depth,
            heads=heads,
            batch=batch,
            steps=steps,
            minutes=minutes,
            seeds=seeds,
            text=tuple(text or ()),
            out=out,
            jobs=jobs,
        )
        with display(sys.stderr) as shown:
            outcome = run(comparison, shown)
    if as_json:
        print(outcome.report.with_suffix(".json").read_text())
    else:
        _print_losses(outcome.runs)
        print(f"report: {outcome.report}")
    # 130 is what shells expect of a command that Ctrl-C ended.
    raise typer.Exit(130 if outcome.interrupted else 1 if outcome.failed else 0)


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """What posenc raises on purpose becomes a message on stderr and exit code 2."""
    try:
        yield
    except PosencError as error:
        print(f"posenc: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    except ModuleNotFoundError as error:
        if error.name not in ("safetensors", "matplotlib"):
            raise
        print(f'This needs {error.name}: pip install "posenc[lab]"', file=sys.stderr)
        raise typer.Exit(1) from None


def _describe(cls: type["Encoding"]) -> dict[str, Any]:
    return {
        "name": cls.name,
        "class": cls.__name__,
        "family": cls.family,
        "summary": (inspect.getdoc(cls) or "").partition("\n")[0],
        "causal_only": bool(cls.tags.causal_only),
        "relative": bool(cls.tags.translation_invariant),
        "paper": cls.paper,
    }


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _lengths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(name) for name in _names(text))
    except ValueError:
        raise typer.BadParameter(
            f"--test-lengths {text}: whole numbers between commas are needed, as in 64,128"
        ) from None


def _print_checks(results: list[dict[str, Any]], failed: list[dict[str, Any]]) -> None:
    statuses = ("passed", "failed", "expected", "skipped")
    table = Table("example", *statuses)
    for example in dict.fromkeys(result["example"] for result in results):
        of = [result["status"] for result in results if result["example"] == example]
        table.add_row(example, *(str(of.count(status)) for status in statuses))
    Console().print(table)
    for result in failed:
        print(f"{result['example']} fails {result['check']}: {result['claim']}")
        print(f"    {result['detail']}")


def _print_losses(runs: list["Run"]) -> None:
    """Mean loss over seeds, fixed targets with growing context."""
    found: dict[str, dict[int, list[float]]] = {}
    for run in runs:
        for row in run.rows if run.state == "done" else ():
            if row["kind"] == "loss" and row["protocol"] == "targets" and row["loss"] is not None:
                by_length = found.setdefault(run.config.encoding, {})
                by_length.setdefault(row["length"], []).append(row["loss"])
    lengths = sorted({length for by_length in found.values() for length in by_length})
    table = Table("encoding", *map(str, lengths), title="loss (nats per byte) at each length")
    for name, by_length in found.items():
        cells = [by_length.get(length, []) for length in lengths]
        table.add_row(name, *(f"{sum(cell) / len(cell):.3f}" if cell else "-" for cell in cells))
    Console().print(table)
