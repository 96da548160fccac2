"""What report.json holds beside what was found: what was run, on what, and how to repeat it."""

import platform
from dataclasses import asdict
from typing import Any

import torch

import posenc
from posenc.extend.cells import Cell
from posenc.extend.methods import Reach, encodings
from posenc.extend.options import Options
from posenc.extend.summary import VERSION, Rows, found
from posenc.extend.verdict import verdict
from posenc.extend.work import Work
from posenc.lab.hardware import hardware
from posenc.lab.intervals import LEVEL


def record(
    options: Options, work: Work, text: dict[str, Any], cells: list[Cell], rows: Rows
) -> dict[str, Any]:
    """The whole of report.json, but for what could not be measured."""
    rows_of = {cell.row: cell for cell in cells if cell.method in options.methods}
    data: dict[str, Any] = {
        "version": VERSION,
        "command": options.command(),
        "model": {
            "path": str(options.model),
            "model_type": work.subject.spec.model_type,
            "parameters": sum(x.numel() for x in work.subject.model.parameters()),
            "sha256": work.subject.identity,
        },
        "text": {name: text[name] for name in ("source", "paths", "bytes", "sha256")},
        "machine": hardware(torch.get_num_threads())
        | {"python": platform.python_version(), "torch": torch.__version__}
        | {"posenc": posenc.__version__},
        "trained": work.lengths.trained,
        "to": list(work.lengths.to),
        "scored": work.lengths.targets,
        "short": work.lengths.short,
        "spans": options.spans,
        "needles": options.needles,
        "seed": options.seed,
        "level": LEVEL,
        "done": len(rows),
        "planned": len(cells),
    }
    data |= found(rows, tuple(rows_of))
    for name, method in data["methods"].items():
        cell = rows_of[name]
        method["encoding"] = encoding_of(work, cell.method)
        if cell.steps:
            method["tuning"] = training_of(work, cell.method)
    return data | {"verdict": verdict(data)}


def training_of(work: Work, method: str) -> dict[str, Any] | None:
    """The settings and the course of a method's training; None where it has not come to an end."""
    assert work.tuner is not None
    course = work.tuner.course(method)
    if course is None:
        return None
    file = work.tuner.path(method).relative_to(work.tuner.folder).as_posix()
    windows = len(work.tuner.windows)
    return asdict(work.tuner.tuning) | asdict(course) | {"windows": windows, "file": file}


def encoding_of(work: Work, method: str) -> str:
    """The repr of what the first layer that turns has got, as it is for any length."""
    reach = Reach(work.lengths.trained, work.target, work.subject.found)
    layers = encodings(work.subject.spec, method, reach)
    return repr(next(parts[0] for parts in layers if parts))
