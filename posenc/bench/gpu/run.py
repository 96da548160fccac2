"""All steps, row after row, within the minutes that there are."""

import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import posenc
from posenc.bench.gpu import ceilings, correctness, timed, training
from posenc.bench.gpu.record import Record
from posenc.bench.gpu.row import Found, Place, Row, Step
from posenc.bench.gpu.workers import Workers
from posenc.bench.machine import version
from posenc.errors import UnknownNameError

STEPS = (
    Step("right", "Whether everything is right", correctness.rows, side_by_side=True),
    Step("ceilings", "What the card can do", ceilings.rows),
    Step("kernels", "Kernels against what they are to reach", timed.kernel_rows),
    Step("peers", "Beside other people's", timed.peer_rows),
    Step("lab", "What the lab learns", training.rows, seconds=300.0),
)
PEERS = ("transformers", "x-transformers", "liger-kernel", "flashdeberta", "flash-attn")
# How many processes share the card where no clock runs: compilers of kernels keep cores busy.
SIDE_BY_SIDE = 8

Tell = Callable[[Step, Row, Found], None]


def run(
    out: Path, place: Place, only: Sequence[str], minutes: float, tell: Tell
) -> tuple[Record, int]:
    """The record, and how many rows are left; none begins after so many minutes.

    Raises UnknownNameError for a step that there is not.
    """
    for name in only:
        if name not in (known := [step.name for step in STEPS]):
            raise UnknownNameError("step", name, known)
    record, until = Record(out, machine(place)), time.monotonic() + 60 * minutes
    left = 0
    with Workers(place) as workers:
        for step in (step for step in STEPS if not only or step.name in only):
            rows = record.left(step, list(step.rows(place)))
            at_once = SIDE_BY_SIDE if step.side_by_side and not place.tiny else 1
            # An interpreter on a busy machine is no reason to fail.
            seconds = step.seconds * (10 if place.tiny else 1)
            done = 0
            for row, found in workers.made(rows, at_once=at_once, seconds=seconds, until=until):
                record.add(step, row, found)
                tell(step, row, found)
                done += 1
            left += len(rows) - done
    return record, left


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
