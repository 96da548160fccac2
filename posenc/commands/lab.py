"""`posenc lab`: what the lab has run, as tables and one by one."""

import importlib
import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table
from typer import Argument, Option

from posenc.commands.app import PLAIN, AsJson, errors
from posenc.errors import LabError, UnknownNameError

app = typer.Typer(
    help="Look at what compare and claims have run: one run, or all numbers as a table.",
    no_args_is_help=True,
    **PLAIN,
)


@app.command()
def table(
    folder: Annotated[Path, Argument(help="What compare or claims run wrote, as --out.")],
    form: Annotated[
        Literal["csv", "latex", "parquet"],
        Option("--form", help="csv: a row for each number; latex: means; parquet: needs pandas."),
    ] = "csv",
    to: Annotated[
        Path | None, Option(help="The file to write.", show_default="standard output")
    ] = None,
) -> None:
    """Print all numbers of a folder of runs as one tidy table."""
    with errors():
        from posenc.lab.table import rows, runs_in, written

        found = rows(runs_in(folder))
        if form == "parquet":
            _parquet(found, to)
            return
        text = written(found, form)
        if to is None:
            sys.stdout.write(text)
        else:
            to.write_text(text, "utf-8")


@app.command()
def show(
    run: Annotated[Path, Argument(help="The folder of one run, in FOLDER/runs.")],
    as_json: AsJson = False,
) -> None:
    """Show one run: what it was, on what, how far it came, and its numbers."""
    with errors():
        from posenc.lab.folder import read_run
        from posenc.lab.table import described

        found = read_run(run)
        if found is None:
            known = [path.name for path in run.parent.iterdir()] if run.parent.is_dir() else []
            if known:
                raise UnknownNameError("run", run.name, known)
            raise LabError(f"{run} is no run: give a folder of FOLDER/runs")
        told = described(found)
    if as_json:
        print(json.dumps(told, indent=2))
        return
    print(f"{told['run']}: {told['state']}")
    for key, value in told["config"].items():
        print(f"  {key}: {value}")
    shown = Table("metric", "length", "value")
    for number in told["numbers"]:
        value = number["value"]
        length = "" if number["length"] is None else str(number["length"])
        shown.add_row(number["metric"], length, "-" if value is None else f"{value:.4g}")
    Console().print(shown)
    if "failed" in told["last"]:
        print(told["last"]["failed"].get("error", ""))


@app.command()
def track(
    folder: Annotated[Path, Argument(help="What compare or claims run wrote, as --out.")],
    to: Annotated[Literal["tensorboard", "trackio"], Option(help="Where the rows are shown.")],
    out: Annotated[
        Path | None,
        Option(help="Folder of event files.", show_default="FOLDER/tensorboard"),
    ] = None,
    project: Annotated[
        str | None, Option(help="Project of trackio.", show_default="the folder's name")
    ] = None,
) -> None:
    """Show the runs of a folder in TensorBoard or trackio; those that go on, as far as they are."""
    with errors():
        from posenc.lab.table import runs_in
        from posenc.lab.track import to_tensorboard, to_trackio

        runs = runs_in(folder)
        if to == "tensorboard":
            to_tensorboard(runs, out or folder / "tensorboard")
            print(f"tensorboard --logdir {out or folder / 'tensorboard'}")
        else:
            to_trackio(runs, project or folder.resolve().name)
            print(f"trackio show --project {project or folder.resolve().name}")


def _parquet(found: list[dict], to: Path | None) -> None:
    if to is None:
        raise LabError("--form parquet writes a file: name it with --to runs.parquet")
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise LabError("--form parquet needs pandas and pyarrow; csv needs neither") from None
    pandas.DataFrame(found).to_parquet(to)
