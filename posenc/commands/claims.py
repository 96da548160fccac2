"""`posenc claims`: what was published about position encodings, run here, and what came out."""

import contextlib
import json
import math
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from typer import Argument, Option

from posenc.commands.app import PLAIN, AsJson, errors, print_table
from posenc.commands.engine import (
    AtAddress,
    CpusPerRun,
    GpusPerRun,
    OnEngine,
    chosen_engine,
)
from posenc.commands.language import InLanguage, sayable
from posenc.errors import SettingError
from posenc.words import Words

if TYPE_CHECKING:
    from posenc.claims import Claim

app = typer.Typer(
    help="Run what was published about encodings, and see whether it holds.",
    no_args_is_help=True,
    **PLAIN,
)
UNITS = {"h": 3600, "m": 60, "s": 1, "": 1}
FOLDER = Path("posenc-claims")


@app.command("list")
def list_(as_json: AsJson = False, language: InLanguage = "en") -> None:
    """List every claim: where it was made, and what came out when posenc ran it."""
    with errors():
        from posenc.claims import claims
        from posenc.claims.kept import kept
        from posenc.claims.words import TEXTS

        say = Words(sayable(language), TEXTS)
        found = {name: kept(name) for name in claims()}
    if as_json:
        rows = [_row(claim, found[name]) for name, claim in claims().items()]
        print(json.dumps(rows, indent=2))
        return
    table = Table(say("claim"), say("outcome"), say("says"), say("source"))
    for name, claim in claims().items():
        outcome = (found[name] or {}).get("outcome", "not_run")
        table.add_row(name, say(outcome), claim.says[say.column], claim.source)
    print_table(table)


@app.command()
def show(
    name: Annotated[str, Argument(help="The claim's name, as `posenc claims list` has it.")],
    out: Annotated[Path, Option(help="Folder of results of your own.")] = FOLDER,
    as_json: AsJson = False,
    language: InLanguage = "en",
) -> None:
    """Show one claim: what it says, how it is run here, what was expected and what came out."""
    with errors():
        from posenc.claims import find
        from posenc.claims.kept import kept
        from posenc.claims.sentences import told
        from posenc.claims.words import TEXTS

        say = Words(sayable(language), TEXTS)
        claim = find(name)
        found = kept(claim.name, out)
    if as_json:
        print(json.dumps(_row(claim, found) | {"result": found}, indent=2))
        return
    print("\n".join(told(claim, found, say)))


@app.command()
def run(
    names: Annotated[list[str] | None, Argument(help="Claims by name.")] = None,
    every: Annotated[bool, Option("--all", help="Every claim of the registry.")] = False,
    size: Annotated[
        Literal["small", "large"], Option(help="small: minutes on 2 cores; large: for a GPU.")
    ] = "small",
    seeds: Annotated[
        int | None, Option(help="Runs of each arm.", show_default="each claim's own")
    ] = None,
    budget: Annotated[
        str | None, Option(help="Time after which no run begins, as in 1h, 30m or 90s.")
    ] = None,
    out: Annotated[Path, Option(help="Folder of the runs and results.")] = FOLDER,
    jobs: Annotated[
        int | None, Option(help="Runs at a time.", show_default="one for each core")
    ] = None,
    device: Annotated[str, Option(help="cpu, cuda, mps, or auto.")] = "auto",
    engine: OnEngine = "local",
    address: AtAddress = None,
    cpus_per_run: CpusPerRun = None,
    gpus_per_run: GpusPerRun = None,
    as_json: Annotated[
        bool, Option("--json", help="Print the results; progress goes to stderr.")
    ] = False,
    language: InLanguage = "en",
) -> None:
    """Run claims to their verdicts; what is done is kept, and the same command goes on."""
    with errors():
        from posenc.claims import claims, find
        from posenc.claims.run import Options
        from posenc.claims.run import run as carry_out
        from posenc.claims.sentences import told
        from posenc.claims.words import TEXTS
        from posenc.lab.progress import display

        if bool(names) == every:
            raise SettingError(
                "posenc claims run takes names of claims, or --all: `posenc claims list` has them"
            )
        chosen = list(claims().values()) if every else [find(name) for name in names or ()]
        used = chosen_engine(engine, address, cpus_per_run, gpus_per_run)
        options = Options(out, size, seeds, jobs, _seconds(budget), device, used)
        # From here on Ctrl-C has checkpoints and results to write.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with display(sys.stderr, sayable(language, sys.stderr)) as shown:
            outcome = carry_out(chosen, options, shown)
    say = Words(sayable(language), TEXTS)
    if as_json:
        print(json.dumps(outcome.results, indent=2))
    else:
        for claim in chosen:
            if claim.name in outcome.results:
                print("\n".join(told(claim, outcome.results[claim.name], say)), end="\n\n")
        print(say("results", path=out / "results"))
    if isinstance(outcome.stopped, KeyboardInterrupt):
        raise typer.Exit(130)
    if outcome.stopped is not None:
        print(f"posenc: {outcome.stopped}", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def report(
    out: Annotated[Path, Option(help="Folder of the results.")] = FOLDER,
    as_json: AsJson = False,
    language: InLanguage = "en",
) -> None:
    """Sum up the results of a folder: verdicts, what is undecided and why, what failed."""
    with errors():
        from posenc.claims import claims
        from posenc.claims.kept import kept
        from posenc.claims.sentences import summed_up
        from posenc.claims.words import TEXTS

        found = {name: result for name in claims() if (result := kept(name, out))}
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        print("\n".join(summed_up(claims(), found, Words(sayable(language), TEXTS))))


def _row(claim: "Claim", found: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "name": claim.name,
        "says": claim.says[0],
        "source": claim.source,
        "agreed": claim.agreed,
        "outcome": found and found["outcome"],
    }


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    number, unit = text.rstrip("hms"), text[len(text.rstrip("hms")) :]
    with contextlib.suppress(ValueError, KeyError):
        seconds = float(number) * UNITS[unit]
        if 0 <= seconds < math.inf:
            return seconds
    raise SettingError(f"--budget {text}: a time is needed, as in 1h, 30m or 90s")
