"""`posenc compare`: small models trained with each encoding."""

import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from posenc.commands.app import app, errors
from posenc.errors import SettingError


@app.command()
def compare(
    encodings: Annotated[
        str, typer.Option(help="Names, or package.module:Class, between commas.")
    ] = "none,learned,sinusoidal,rotary,alibi,t5",
    train_length: Annotated[int, typer.Option(help="Bytes of text in a training example.")] = 64,
    test_lengths: Annotated[
        str, typer.Option(help="Lengths to test at, between commas; the train length is added.")
    ] = "64,128,256,512",
    dim: Annotated[int, typer.Option(help="Width of the model.")] = 32,
    depth: Annotated[int, typer.Option(help="Layers.")] = 2,
    heads: Annotated[int, typer.Option(help="Attention heads.")] = 4,
    batch: Annotated[int, typer.Option(help="Examples in a training step.")] = 16,
    steps: Annotated[
        int | None, typer.Option(help="Training steps of each run.", show_default="1500")
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
    with errors():
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
        # From here on Ctrl-C has checkpoints and a report to write.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with display(sys.stderr) as shown:
            outcome = run(comparison, shown)
    text_of_report = outcome.report.with_suffix(".json").read_text("utf-8")
    if as_json:
        print(text_of_report)
    else:
        _print_report(json.loads(text_of_report))
        print(f"report: {outcome.report}")
    # 130 is what shells expect of a command that Ctrl-C ended.
    raise typer.Exit(130 if outcome.interrupted else 1 if outcome.failed else 0)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _lengths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(name) for name in _names(text))
    except ValueError:
        raise SettingError(
            f"compare --test-lengths {text}: whole numbers between commas are needed, as in 64,128"
        ) from None


def _print_report(report: dict[str, Any]) -> None:
    """The losses (fixed targets, mean over seeds) and the verdict's sentences."""
    lengths = [str(length) for length in report["lengths"]]
    table = Table("loss at", *lengths)
    for name, encoding in report["encodings"].items():
        table.add_row(name, *(_mean(encoding["loss"]["targets"].get(n)) for n in lengths))
    if report["encodings"]:
        Console().print(table)
    for sentence in (report["headline"], *report["verdict"]):
        print(sentence)


def _mean(target: dict[str, Any] | None) -> str:
    seeds = list(target["seeds"].values()) if target else []
    return "-" if not seeds or None in seeds else f"{sum(seeds) / len(seeds):.3f}"
