"""`posenc compare`: small models trained with each encoding."""

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer import Option

from posenc.commands.app import errors, print_table
from posenc.commands.engine import (
    AtAddress,
    CpusPerRun,
    GpusPerRun,
    OnEngine,
    chosen_engine,
)
from posenc.commands.language import InLanguage, sayable
from posenc.errors import SettingError
from posenc.lab.config import Comparison, RunConfig
from posenc.lab.spelling import split
from posenc.words import Language, Words

if TYPE_CHECKING:
    from posenc.lab.compare import Outcome


def compare(
    encodings: Annotated[
        str,
        Option(
            help="Names or package.module:Class between commas, with settings, as in "
            "'t5(max_distance=32),window(width=16)+rotary'."
        ),
    ] = ",".join(Comparison.encodings),
    train_length: Annotated[
        int, Option(help="Bytes of text in a training example.")
    ] = Comparison.train_length,
    test_lengths: Annotated[
        str, Option(help="Lengths to test at, between commas; the train length is added.")
    ] = ",".join(map(str, Comparison.test_lengths)),
    dim: Annotated[int, Option(help="Width of the model.")] = Comparison.dim,
    depth: Annotated[int, Option(help="Layers.")] = Comparison.depth,
    heads: Annotated[int, Option(help="Attention heads.")] = Comparison.heads,
    batch: Annotated[int, Option(help="Examples in a training step.")] = Comparison.batch,
    steps: Annotated[
        int | None,
        Option(help="Training steps of each run.", show_default=str(RunConfig.steps)),
    ] = Comparison.steps,
    minutes: Annotated[
        float | None, Option(help="Budget of all runs together, instead of --steps.")
    ] = Comparison.minutes,
    seeds: Annotated[int, Option(help="How often each encoding is trained.")] = Comparison.seeds,
    text: Annotated[
        list[Path] | None,
        Option(help="A file or folder to read instead of Python's own source; can be repeated."),
    ] = None,
    train_bytes: Annotated[
        int | None,
        Option(help="Bytes of the text to train on, of those that are not for testing."),
    ] = Comparison.train_bytes,
    out: Annotated[Path, Option(help="Folder of the results.")] = Comparison.out,
    jobs: Annotated[
        int | None, Option(help="Runs at a time.", show_default="one for each core")
    ] = Comparison.jobs,
    engine: OnEngine = "local",
    address: AtAddress = None,
    cpus_per_run: CpusPerRun = None,
    gpus_per_run: GpusPerRun = None,
    as_json: Annotated[
        bool, Option("--json", help="Print report.json; progress goes to stderr.")
    ] = False,
    language: InLanguage = Comparison.language,
) -> None:
    """Train a small model with each encoding, test it at longer lengths, and write a report."""
    with errors():
        from posenc.claims.published import published
        from posenc.lab.compare import compare as run
        from posenc.lab.progress import display

        comparison = Comparison(
            encodings=tuple(split(encodings, ",")),
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
            train_bytes=train_bytes,
            out=out,
            jobs=jobs,
            language=language,
        )
        used = chosen_engine(engine, address, cpus_per_run, gpus_per_run)
        # From here on Ctrl-C has checkpoints and a report to write.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with display(sys.stderr, sayable(language, sys.stderr)) as shown:
            outcome = run(comparison, shown, published(), used)
    if as_json:
        print(json.dumps(outcome.data, indent=2))
    else:
        _print_report(outcome, sayable(language))
    # 130 is what shells expect of a command that Ctrl-C ended.
    raise typer.Exit(130 if outcome.interrupted else 1 if outcome.failed else 0)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _lengths(text: str) -> tuple[int, ...]:
    try:
        lengths = tuple(int(name) for name in _names(text))
    except ValueError:
        lengths = ()
    if not lengths:
        raise SettingError(
            f"compare --test-lengths {text!r}: whole numbers between commas are needed, as in "
            "64,128"
        )
    return lengths


def _print_report(outcome: "Outcome", language: Language) -> None:
    """The losses (fixed targets, mean over seeds) and the verdict's sentences."""
    from posenc.lab.words import TEXTS

    say, report = Words(language, TEXTS), outcome.data
    lengths = [str(length) for length in report["lengths"]]
    table = Table(say("loss_at"), *lengths)
    for name, encoding in report["encodings"].items():
        table.add_row(name, *(_mean(encoding["loss"]["targets"].get(n)) for n in lengths))
    if report["encodings"]:
        print_table(table)
    english = [report["headline"], *report["verdict"]]
    for sentence in english if language == "en" else outcome.said:
        print(sentence)
    print(say("report", path=outcome.report))


def _mean(target: dict[str, Any] | None) -> str:
    seeds = list(target["seeds"].values()) if target else []
    return "-" if not seeds or None in seeds else f"{sum(seeds) / len(seeds):.3f}"
