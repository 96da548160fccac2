"""`torchrun -m posenc.lab.train CONFIG`: one run by several processes, which share each batch."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import torch
import typer
from typer import Argument, Option

from posenc.commands.app import PLAIN, errors
from posenc.commands.language import InLanguage, sayable
from posenc.errors import PosencError
from posenc.lab.config import RunConfig
from posenc.lab.folder import locked, make_folder
from posenc.lab.hardware import cores
from posenc.lab.leftovers import text_file
from posenc.lab.progress import display
from posenc.lab.run import Assignment, attempt, prepare
from posenc.lab.train import Progress, Stop
from posenc.lab.train.given import How, read, whole
from posenc.lab.train.together import Together, group
from posenc.words import Language

app = typer.Typer(**PLAIN)


@app.command()
def main(
    config: Annotated[Path, Argument(help="JSON of a run's settings, or a run's manifest.json.")],
    out: Annotated[str | None, Option(help="Folder of all runs.")] = None,
    text: Annotated[
        list[str] | None, Option(help="What a task of text reads; can be repeated.")
    ] = None,
    parallel: Annotated[str | None, Option(help="ddp, or fsdp, which cuts the weights.")] = None,
    shards: Annotated[
        int | None, Option(help="Into how many shares.", show_default="as many as processes")
    ] = None,
    accumulate: Annotated[
        int | None, Option(help="Parts in which each process reads its share of a batch.")
    ] = None,
    checkpoint_activations: Annotated[
        bool | None, Option(help="Compute activations again rather than keep them.")
    ] = None,
    device: Annotated[str | None, Option(help="cpu, cuda, or auto.")] = None,
    language: InLanguage = "en",
) -> None:
    """Train one model by all processes that torchrun has started, then test it.

    Options take the place of what CONFIG says under "how". What is done is kept, and the same
    command goes on, with any number of processes.
    """
    chosen = {
        "out": out,
        "text": tuple(text) if text else None,
        "parallel": parallel,
        "shards": shards,
        "accumulate": accumulate,
        "checkpoint_activations": checkpoint_activations,
        "device": device,
    }
    with _errors_said_once():
        found, how = read(config, {name: v for name, v in chosen.items() if v is not None})
        state = _carry_out(found, how, language)
    raise typer.Exit({"done": 0, "failed": 1}.get(state, 130))


def _carry_out(config: RunConfig, how: How, language: Language) -> str:
    """What became of the run: done, failed or stopped."""
    stopping = False

    def on_signal(number: int, frame: object) -> None:
        nonlocal stopping
        stopping = True

    torch.set_num_threads(max(1, cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
    with contextlib.ExitStack() as stack:
        rank, count, device = stack.enter_context(group(how.device))
        processes = Together(rank, count, device, how)
        processes.check(config)
        config, corpus = whole(config, how)
        out = Path(how.out)
        given = Assignment(
            config,
            out / "runs" / config.name,
            stack.enter_context(text_file(corpus)),
            corpus.summary if corpus else {},
            torch.get_num_threads(),
            str(device),
            {"processes": count, "parallel": how.parallel},
        )

        def begin() -> None:
            make_folder(out, "runs")
            stack.enter_context(locked(out, wait=False))
            prepare(given)

        processes.first(begin)
        shown = None
        if rank == 0:
            shown = stack.enter_context(display(sys.stderr, sayable(language, sys.stderr)))
            shown.plan(1, 0)
            shown.begin(config.name)

        def tell(progress: Progress) -> None:
            if stopping:
                raise Stop
            if shown is not None:
                shown.update(config.name, progress)

        # torchrun hands an interrupt on: a checkpoint is written, and the same command goes on.
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, on_signal)
        state, message = attempt(given, tell, processes)
        if shown is not None:
            shown.end(config.name, state, message)
            print(given.folder)
        elif state == "failed":
            print(f"posenc: process {rank}: {message}", file=sys.stderr)
        return state


@contextlib.contextmanager
def _errors_said_once() -> Iterator[None]:
    """What is wrong with what was given all processes find; the first one says it."""
    if os.environ.get("RANK", "0") == "0":
        with errors():
            yield
        return
    try:
        yield
    except PosencError:
        raise typer.Exit(2) from None


if __name__ == "__main__":
    app(prog_name="torchrun -m posenc.lab.train")
