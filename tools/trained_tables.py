"""Train the position tables that the explorer shows, with the lab, and write them as its data.

python tools/trained_tables.py            about ten minutes on two cores

Each number of steps is a run of its own: 0 steps is the table as it began.
"""

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc.encodings._absolute import Table
from posenc.lab.compare import Comparison, compare, plan
from posenc.lab.folder import WEIGHTS, Run
from posenc.lab.model import build
from posenc.lab.progress import display
from posenc.lab.text import standard_library

TARGET = Path(__file__).parent.parent / "posenc" / "explorer" / "data" / "trained.js"
ENCODINGS = ("learned", "floater")
TRAIN_LENGTH, ROWS, DIM = 64, 96, 48
STEPS = (100, 300, 1200)


def comparison(steps: int, out: Path) -> Comparison:
    return Comparison(
        encodings=ENCODINGS,
        train_length=TRAIN_LENGTH,
        test_lengths=(TRAIN_LENGTH, ROWS),
        dim=DIM,
        steps=steps,
        seeds=1,
        jobs=1,
        out=out,
    )


@torch.no_grad()
def table_of(model: torch.nn.Module) -> Tensor:
    encoding = next(module for module in model.modules() if isinstance(module, Table))
    return encoding.rows(ROWS).double()


def packed(table: Tensor) -> dict[str, Any]:
    """A table in one byte per number: values * scale, row after row."""
    scale = table.abs().max().item() / 127
    values = (table / scale).round().to(torch.int8)
    return {"scale": scale, "values": base64.b64encode(values.numpy().tobytes()).decode()}


def begun(out: Path) -> list[dict[str, Any]]:
    """The tables as they were before training."""
    runs = plan(comparison(STEPS[0], out), standard_library())
    return [
        {"encoding": config.encoding, "steps": 0, "loss": None} | packed(table_of(build(config)))
        for config in runs
    ]


def trained(run: Run, steps: int) -> dict[str, Any]:
    from safetensors.torch import load_file

    model = build(run.config)
    model.load_state_dict(load_file(run.path / WEIGHTS))
    loss = {
        str(row["length"]): row["loss"]
        for row in run.rows
        if row["kind"] == "loss" and row["protocol"] == "targets"
    }
    name = run.config.encoding
    return {"encoding": name, "steps": steps, "loss": loss} | packed(table_of(model))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs, commands = begun(Path(folder)), []
        for steps in STEPS:
            chosen = comparison(steps, Path(folder) / str(steps))
            with display(sys.stderr) as shown:
                outcome = compare(chosen, shown)
            runs += [trained(run, steps) for run in outcome.runs]
            commands.append(chosen.command().replace(folder, "runs"))
    data = {
        "commands": commands,
        "trainLength": TRAIN_LENGTH,
        "rows": ROWS,
        "dim": DIM,
        "steps": [0, *STEPS],
        "runs": runs,
    }
    TARGET.write_text(
        "// Made by tools/trained_tables.py; one byte per number, value * scale.\n"
        f"export default {json.dumps(data, indent=1)};\n"
    )
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
