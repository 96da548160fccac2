"""`posenc extend`: how far a trained model reads with each method."""

import importlib.util
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer import Argument, Option

from posenc.commands.app import errors, print_table
from posenc.commands.engine import AtAddress, CpusPerRun, GpusPerRun, OnEngine, chosen_engine
from posenc.commands.language import InLanguage, sayable
from posenc.errors import LabError, SettingError, installing
from posenc.extend.options import MEASURES, METHODS, SEARCHED, Options
from posenc.extend.search.settings import POPULATION, SAMPLES, Search
from posenc.extend.tune.settings import FULL, FULL_RATE, LORA_RATE, RANK, WINDOW, Tuning
from posenc.words import Words

if TYPE_CHECKING:
    from posenc.extend.measuring import Measuring
    from posenc.lab.engine.engine import Engine


def extend(
    model: Annotated[
        Path, Argument(help="A folder with config.json and safetensors, or a GGUF file.")
    ],
    to: Annotated[
        str | None,
        Option(
            help="Lengths to read, in tokens, between commas; methods are set for the longest.",
            show_default="twice the trained length",
        ),
    ] = None,
    methods: Annotated[
        str, Option(help=f"Names between commas, of {', '.join(METHODS)}.", show_default="all")
    ] = ",".join(METHODS),
    measures: Annotated[
        str, Option(help=f"Names between commas, of {', '.join(MEASURES)}.", show_default="all")
    ] = ",".join(MEASURES),
    text: Annotated[
        list[Path] | None,
        Option(help="A file or folder to read instead of Python's own source; can be repeated."),
    ] = None,
    out: Annotated[Path, Option(help="Folder of the results.")] = Options.out,
    spans: Annotated[int, Option(help="Stretches of text that losses are taken of.")] = (
        Options.spans
    ),
    needles: Annotated[
        int, Option(help="Passkeys that are hidden at each depth and length.")
    ] = Options.needles,
    seed: Annotated[int, Option(help="Of the passkeys, and of training.")] = Options.seed,
    tune: Annotated[
        int | None,
        Option(
            help="Train each method on for so many steps besides, at positions that skip ahead "
            "to the farthest length (PoSE)."
        ),
    ] = None,
    tune_length: Annotated[
        int | None,
        Option(help="Tokens of a training window.", show_default=f"the trained length or {WINDOW}"),
    ] = None,
    tune_lr: Annotated[
        float | None,
        Option(help="AdamW's rate.", show_default=f"{LORA_RATE:g}, of all weights {FULL_RATE:g}"),
    ] = None,
    tune_rank: Annotated[
        str | None,
        Option(help=f"Rank of LoRA, by peft, or {FULL}: all weights.", show_default=str(RANK)),
    ] = None,
    search: Annotated[
        int | None,
        Option(
            help=f"Search the factors of {SEARCHED} for so many generations (LongRoPE 2), by the "
            "loss of needles at the beginning of texts of the farthest length, and measure it too."
        ),
    ] = None,
    search_population: Annotated[
        int | None, Option(help="Candidates of a generation.", show_default=str(POPULATION))
    ] = None,
    search_samples: Annotated[
        int | None, Option(help="Needles that each is read with.", show_default=str(SAMPLES))
    ] = None,
    write: Annotated[
        str | None,
        Option(help="Write the config.json of this method into the folder of the results."),
    ] = None,
    engine: OnEngine = "local",
    address: AtAddress = None,
    cpus_per_run: CpusPerRun = None,
    gpus_per_run: GpusPerRun = None,
    as_json: Annotated[
        bool, Option("--json", help="Print report.json; progress goes to stderr.")
    ] = False,
    language: InLanguage = Options.language,
) -> None:
    """Measure how far a trained rotary model reads with each method, and write a report."""
    with errors():
        from posenc.extend.run import extend as run
        from posenc.extend.words import TEXTS

        options = Options(
            model=model,
            to=_lengths(to),
            methods=_names(methods if search is None else f"{methods},{SEARCHED}"),
            measures=_names(measures),
            text=tuple(text or ()),
            out=out,
            spans=spans,
            needles=needles,
            seed=seed,
            write=write,
            tuning=_tuning(tune, length=tune_length, rate=tune_lr, rank=tune_rank),
            search=_search(search, population=search_population, samples=search_samples),
            language=language,
        )
        measuring = _measuring(chosen_engine(engine, address, cpus_per_run, gpus_per_run))
        # From here on Ctrl-C has a report to write.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        told = Words(sayable(language, sys.stderr), TEXTS)
        outcome = run(
            options, lambda line: print(told.of(line), file=sys.stderr, flush=True), measuring
        )
    if as_json:
        print(json.dumps(outcome.data, indent=2))
    else:
        say = Words(sayable(language), TEXTS)
        _print_report(outcome.data, say)
        print(say("report", path=outcome.report))
        if outcome.written is not None:
            print(say.of(outcome.written))
    # 130 is what shells expect of a command that Ctrl-C ended.
    raise typer.Exit(130 if outcome.interrupted else 1 if outcome.failed else 0)


def _measuring(engine: "Engine") -> "Measuring":
    """Raises PosencError where there is no cluster to measure on, before a model is loaded."""
    from posenc.extend.measuring import here
    from posenc.lab.engine.ray import Ray

    if not isinstance(engine, Ray):
        return here
    if importlib.util.find_spec("ray") is None:
        raise LabError(f"--engine ray needs Ray: {installing('ray')}")
    from posenc.extend.on_ray import OnRay

    measuring = OnRay(engine)
    measuring.check()
    return measuring


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def _lengths(text: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(name) for name in _names(text or ""))
    except ValueError:
        raise SettingError(
            f"extend --to {text}: whole numbers between commas are needed, as in 16384,32768"
        ) from None


def _tuning(
    steps: int | None, *, length: int | None, rate: float | None, rank: str | None
) -> Tuning | None:
    if steps is None:
        given = {"length": length, "lr": rate, "rank": rank}
        for name, value in given.items():
            if value is not None:
                raise SettingError(
                    f"extend --tune-{name} {value}: nothing is trained; give --tune STEPS too"
                )
        return None
    return Tuning(steps, length, rate, _rank(rank))


def _search(
    generations: int | None, *, population: int | None, samples: int | None
) -> Search | None:
    given = {"population": population, "samples": samples}
    chosen = {name: value for name, value in given.items() if value is not None}
    if generations is not None:
        return Search(generations, **chosen)
    for name, value in chosen.items():
        raise SettingError(
            f"extend --search-{name} {value}: nothing is searched; give --search GENERATIONS too"
        )
    return None


def _rank(text: str | None) -> int | None:
    if text is None:
        return RANK
    if text == FULL:
        return None
    try:
        return int(text)
    except ValueError:
        raise SettingError(
            f"extend --tune-rank {text}: a whole number is needed, or {FULL}"
        ) from None


def _print_report(report: dict[str, Any], say: Words) -> None:
    """Losses on fixed targets, passkeys, and the verdict's sentences."""
    from posenc.extend.sentences import called, sentences
    from posenc.extend.words.page import PHRASES
    from posenc.report.known import known

    longest = str(max(report["to"]))
    lengths = sorted({int(n) for x in report["methods"].values() for n in x["targets"]})
    heads = [say("loss_at"), *map(str, lengths), say("head_passkeys"), say("head_seconds")]
    table = Table(*heads)
    for name, method in report["methods"].items():
        keys, cost = method["passkeys"].get(longest), method["cost"].get(longest)
        table.add_row(
            called(name, say),
            *(_loss(method["targets"].get(str(n))) for n in lengths),
            f"{keys['hits']}/{keys['tries']}" if keys else "-",
            f"{cost['seconds']:.1f}" if cost else "-",
        )
    base = report["sliding"]["targets"]
    if base:
        table.add_row(say("sliding_window"), *(_loss(base.get(str(n))) for n in lengths), "-", "-")
    print_table(table)
    for name, method in report["methods"].items():
        course = method.get("tuning")
        if course:
            losses = {key: course[key] for key in ("first", "last", "seconds")}
            print(say("course", name=called(name, say), **losses))
    for sentence in sentences(report, report["verdict"], say):
        print(sentence)
    for name, reason in {**report["unavailable"], **report["failed"]}.items():
        print(say("no_result", name=called(name, say), reason=known(reason, PHRASES, say)))


def _loss(found: dict[str, Any] | None) -> str:
    return "-" if found is None or found["mean"] is None else f"{found['mean']:.3f}"
