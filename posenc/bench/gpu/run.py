"""All steps, row after row, within the minutes that there are."""

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import posenc
from posenc.bench.gpu import ceilings, correctness, timed, training
from posenc.bench.gpu.record import Record
from posenc.bench.gpu.row import Found, Place, Row, Step
from posenc.bench.gpu.workers import Workers
from posenc.bench.machine import version
from posenc.errors import UnknownNameError


def _right(place: Place) -> Iterator[Row]:
    # The longest first, so that no process is left with one at the end.
    yield from training.on_both(place)
    yield from correctness.rows(place)


STEPS = (
    Step("right", "Whether everything is right", _right, side_by_side=True, seconds=300.0),
    Step("ceilings", "What the card can do", ceilings.rows),
    Step("kernels", "Kernels against what they are to reach", timed.kernel_rows, ready=timed.ready),
    Step("peers", "Beside other people's", timed.peer_rows, ready=timed.ready),
    Step("lab", "What the lab learns", training.rows, seconds=300.0),
)
PEERS = ("transformers", "x-transformers", "liger-kernel", "flashdeberta",
         "disentangled-flash", "flash-attn")  # fmt: skip
# How many processes share the card at most where no clock runs: compilers keep a core each busy.
SIDE_BY_SIDE = 16

Tell = Callable[[Step, Row, Found], None]


def run(
    out: Path, place: Place, only: Sequence[str], minutes: float, tell: Tell
) -> tuple[Record, int]:
    """The record, and how many rows are left; none begins after so many minutes.

    only   names of steps, or words of names of rows

    Raises UnknownNameError for a word that is in none.
    """
    every = {step: [*step.rows(place)] for step in STEPS}
    names = [row.name for rows in every.values() for row in rows]
    for word in only:
        if word not in (steps := [step.name for step in STEPS]) and not any(
            word in name for name in names
        ):
            raise UnknownNameError("step or row", word, steps)
    record, until = Record(out, machine(place)), time.monotonic() + 60 * minutes
    side_by_side = 1 if place.tiny else min(SIDE_BY_SIDE, os.cpu_count() or 1)
    left = 0
    with Workers(place) as workers:
        for step in STEPS:
            rows = record.left(step, _chosen(step, every[step], only))
            # An interpreter on a busy machine is no reason to fail.
            seconds = step.seconds * (10 if place.tiny else 1)
            if step.ready and not place.tiny:
                ahead = [replace(row, make=step.ready) for row in rows]
                # What fails here fails in its row again, and is told there.
                for _ in workers.made(ahead, at_once=side_by_side, seconds=seconds, until=until):
                    pass
            at_once = side_by_side if step.side_by_side else 1
            done = 0
            for row, found in workers.made(rows, at_once=at_once, seconds=seconds, until=until):
                record.add(step, row, found)
                tell(step, row, found)
                done += 1
            left += len(rows) - done
    return record, left


def _chosen(step: Step, rows: list[Row], only: Sequence[str]) -> list[Row]:
    if not only or step.name in only:
        return rows
    return [row for row in rows if any(word in row.name for word in only)]


def machine(place: Place) -> dict[str, Any]:
    """The card, and the versions of what was run."""
    import torch

    about = {
        "gpu": "none: a rehearsal on the CPU",
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": version("triton"),
        "python": platform.python_version(),
        "posenc": posenc.__version__,
        "peers": {name: version(name) for name in PEERS},
    }
    if place.device == "cuda":
        card = torch.cuda.get_device_properties(0)
        about |= {
            "gpu": card.name,
            "capability": f"{card.major}.{card.minor}",
            "processors": card.multi_processor_count,
            "memory_gib": card.total_memory / 2**30,
        }
    return about
