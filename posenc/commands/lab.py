"""`posenc lab`: run any task, and what the lab has run, as tables, as a map and one by one."""

import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from typer import Argument, Option

from posenc.atomic_files import replace_file
from posenc.commands.app import PLAIN, AsJson, errors, print_table
from posenc.commands.engine import AtAddress, CpusPerRun, GpusPerRun, OnEngine, chosen_engine
from posenc.commands.language import InLanguage, sayable
from posenc.errors import LabError, SettingError, UnknownNameError
from posenc.lab.spelling import split
from posenc.words import Language, Words

if TYPE_CHECKING:
    from posenc.lab.arms import Arm

FOLDER = Path("posenc-lab")

app = typer.Typer(
    help="Run any task of the lab, and look at what was run: numbers, a table, a map.",
    no_args_is_help=True,
    **PLAIN,
)


@app.command()
def run(
    task: Annotated[str, Option(help="What is learned, with settings: copy, needle, text, ...")],
    encodings: Annotated[str, Option(help="Names between commas, with settings.")] = "none,rotary",
    train_lengths: Annotated[str, Option(help="Lengths to train at, between commas.")] = "10",
    test_lengths: Annotated[
        str, Option(help="Lengths to test at, between commas; each train length is added.")
    ] = "10,15,20",
    seeds: Annotated[int, Option(help="Runs of each encoding at each train length.")] = 5,
    steps: Annotated[int, Option(help="Training steps of each run.")] = 1500,
    rates: Annotated[
        str,
        Option(help="Learning rates; of several, each encoding gets the best at its train length."),
    ] = "0.003",
    solved: Annotated[
        float | None, Option(help="Share of right answers at which training ends early.")
    ] = None,
    size: Annotated[
        str | None,
        Option(help="30k, 300k, 1m, 10m, 30m or 125m parameters, instead of the next three."),
    ] = None,
    dim: Annotated[int, Option(help="Width of the model.")] = 64,
    depth: Annotated[int, Option(help="Layers.")] = 2,
    heads: Annotated[int, Option(help="Attention heads.")] = 4,
    batch: Annotated[int, Option(help="Examples in a training step.")] = 64,
    spans: Annotated[int, Option(help="Examples, or stretches of text, to test on.")] = 256,
    positions: Annotated[
        str, Option(help="How positions are drawn, as in random(longest=128).")
    ] = "",
    precision: Annotated[Literal["float32", "bfloat16"], Option(help="Of training.")] = "float32",
    compiled: Annotated[
        bool, Option("--compile", help="Compile the steps of training by torch.compile.")
    ] = False,
    text: Annotated[
        list[Path] | None, Option(help="What a task of text reads; can be repeated.")
    ] = None,
    out: Annotated[Path, Option(help="Folder of the runs.")] = FOLDER,
    jobs: Annotated[
        int | None, Option(help="Runs at a time.", show_default="one for each core")
    ] = None,
    device: Annotated[str, Option(help="cpu, cuda, mps, or auto.")] = "auto",
    engine: OnEngine = "local",
    address: AtAddress = None,
    cpus_per_run: CpusPerRun = None,
    gpus_per_run: GpusPerRun = None,
    as_json: Annotated[
        bool, Option("--json", help="Print what came out as JSON; progress goes to stderr.")
    ] = False,
    language: InLanguage = "en",
) -> None:
    """Train models on a task at each length, test them at others, and print what came out.

    What is done is kept, and the same command goes on.
    """
    with errors():
        from posenc.lab.config import OF_TEXT, RunConfig
        from posenc.lab.progress import display
        from posenc.lab.sizes import Size, size_of
        from posenc.lab.sweep import Sweep, sweep
        from posenc.lab.tasks import find
        from posenc.lab.text import read_text, standard_library

        chosen_size = Size(dim, depth, heads) if size is None else size_of(size)
        config = RunConfig(
            "none",
            task=find(task).spec,
            test_lengths=_numbers("--test-lengths", test_lengths, int),
            **chosen_size._asdict(),
            batch=batch,
            steps=steps,
            compile=compiled,
            learning_rate=_numbers("--rates", rates, float)[0],
            spans=spans,
            solved=solved,
            positions=positions,
            precision=precision,
        )
        chosen = Sweep(
            config,
            tuple(split(encodings, ",")),
            _numbers("--train-lengths", train_lengths, int),
            seeds,
            _numbers("--rates", rates, float),
            out,
            jobs,
            device,
        )
        used = chosen_engine(engine, address, cpus_per_run, gpus_per_run)
        # From here on Ctrl-C has checkpoints to write.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        corpus = None
        if config.of_text:
            corpus = read_text(text) if text else standard_library()
        elif text:
            raise SettingError(
                f"lab run --text {text[0]}: task {config.task} makes its examples and reads no "
                f"text; leave --text away, or take {', '.join(OF_TEXT)}"
            )
        with display(sys.stderr, sayable(language, sys.stderr)) as shown:
            found, stopped = sweep(chosen, corpus, shown, used)
    if as_json:
        print(json.dumps([arm.told() for arm in found], indent=2))
    else:
        _print_arms(found, sayable(language))
    if stopped is not None and not isinstance(stopped, KeyboardInterrupt):
        print(f"posenc: {stopped}", file=sys.stderr)
    failed = stopped is not None or any(arm.failed for arm in found)
    raise typer.Exit(130 if isinstance(stopped, KeyboardInterrupt) else 1 if failed else 0)


@app.command("map")
def map_(
    folder: Annotated[Path, Argument(help="What lab run or claims run wrote, as --out.")],
    to: Annotated[Path, Option(help="The picture to write: .png or .svg.")],
    task: Annotated[
        str | None, Option(help="Of runs of several tasks, which, as it was spelled.")
    ] = None,
    metric: Annotated[
        Literal["exact", "token", "loss", "windows"] | None,
        Option(help="What is drawn.", show_default="exact, or loss where there is none"),
    ] = None,
    theme: Annotated[Literal["light", "dark"], Option(help="Of the picture.")] = "light",
    language: InLanguage = "en",
) -> None:
    """Draw train length against test length for each encoding, in colours."""
    with errors():
        from posenc.analysis.plot import save
        from posenc.lab.arms import of_runs
        from posenc.lab.heat_map import heat_map
        from posenc.lab.table import runs_in

        arms = [arm for arm in of_runs(runs_in(folder)) if task in (None, arm.task)]
        save(heat_map(arms, metric, theme, sayable(language)), to)
        print(to)


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
        from posenc.lab.table import rows, runs_in, to_parquet, written

        found = rows(runs_in(folder))
        if form == "parquet":
            to_parquet(found, to)
            return
        text = written(found, form)
        if to is None:
            sys.stdout.write(text)
        else:
            replace_file(to, text.encode())


@app.command()
def show(
    run: Annotated[Path, Argument(help="The folder of one run, in FOLDER/runs.")],
    as_json: AsJson = False,
    language: InLanguage = "en",
) -> None:
    """Show one run: what it was, on what, how far it came, and its numbers."""
    with errors():
        from posenc.lab.folder import MANIFEST, read_run
        from posenc.lab.table import described

        found = read_run(run)
        if found is None:
            runs = run / "runs" if (run / "runs").is_dir() else run.parent
            known = [path.parent.name for path in runs.glob(f"*/{MANIFEST}")]
            if known and run.name not in known:
                raise UnknownNameError("run", run.name, known)
            raise LabError(f"{run} is no run that can be read: give a folder of FOLDER/runs")
        told = described(found)
    if as_json:
        print(json.dumps(told, indent=2))
        return
    from posenc.lab.words import TEXTS

    say = Words(sayable(language), TEXTS)
    print(say("run_is", run=told["run"], state=say(told["state"])))
    for key, value in told["config"].items():
        print(f"  {key}: {value}")
    shown = Table(*map(say, ("metric", "length", "value")))
    for number in told["numbers"]:
        value = number["value"]
        length = "" if number["length"] is None else str(number["length"])
        shown.add_row(number["metric"], length, "-" if value is None else f"{value:.4g}")
    print_table(shown)
    if "failed" in told["last"]:
        print(told["last"]["failed"].get("error", ""))


@app.command()
def track(
    folder: Annotated[Path, Argument(help="What compare or claims run wrote, as --out.")],
    to: Annotated[Literal["tensorboard", "trackio"], Option(help="Where the rows are shown.")],
    out: Annotated[
        Path | None, Option(help="Folder of event files.", show_default="FOLDER/tensorboard")
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


def _numbers(option: str, text: str, kind: type) -> tuple[Any, ...]:
    with contextlib.suppress(ValueError):
        if found := tuple(kind(part) for part in split(text, ",")):
            return found
    raise SettingError(f"lab run {option} {text}: numbers between commas are needed, as in 10,20")


def _print_arms(arms: list["Arm"], language: Language) -> None:
    """The mean at each length with its 95% interval; what was not learned is marked."""
    from posenc.lab.arms import told_apart
    from posenc.lab.wording import half_width
    from posenc.lab.words import TEXTS
    from posenc.lab.words.metrics import METRICS
    from posenc.report.numbers import number

    say = Words(language, TEXTS)
    metric = next((arm.metric for arm in arms if arm.metric), None)
    if metric is None:
        print(say("none_finished"))
        return
    lengths = sorted({length for arm in arms for length in arm.lengths(metric)})
    name = Words(language, METRICS)(metric)
    table = Table(name, say("trained_on"), *map(str, lengths))
    trains = {arm.train: [one for one in arms if one.train == arm.train] for arm in arms}
    named = [pair for own in trains.values() for pair in zip(own, told_apart(own), strict=True)]
    for arm, label in named:
        cells = []
        for length in lengths:
            found = arm.values(metric, length).by_seed.values()
            known = arm.interval(metric, length)
            lost = say("untested" if arm.lacking(length) else "diverged")
            mean = number(sum(found) / len(found), 3, lost) if found else "-"
            cells.append(f"{mean} {half_width(known, 3)}" if known else mean)
        mark = "" if arm.learned else " †"
        table.add_row(label + mark, str(arm.train), *cells)
    print_table(table)
    if not all(arm.learned for arm in arms):
        print(say("unlearned"))
    failed = sum(arm.failed for arm in arms)
    if failed:
        print(say("runs_failed", failed=failed))
