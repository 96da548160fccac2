"""Models that `posenc compare` left in its folder."""

from pathlib import Path

import safetensors.torch

from posenc.lab.folder import WEIGHTS, Run, read_run
from posenc.lab.model import build
from posenc.model import Transformer


def runs_of(folder: Path) -> dict[str, list[Run]]:
    """Finished runs by encoding, in the order of seeds."""
    found: dict[str, list[Run]] = {}
    for path in sorted((folder / "runs").iterdir()):
        run = read_run(path)
        if run is not None and run.state == "done":
            found.setdefault(run.config.encoding, []).append(run)
    return {name: sorted(runs, key=lambda run: run.config.seed) for name, runs in found.items()}


def trained(run: Run) -> Transformer:
    model = build(run.config).eval()
    assert isinstance(model, Transformer)
    model.load_state_dict(safetensors.torch.load_file(run.path / WEIGHTS))
    return model
