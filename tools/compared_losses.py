"""Write the losses of a comparison as data of the explorer.

posenc compare                                  a few minutes; its options as they are by default
python tools/compared_losses.py posenc-compare  out of what it left; a minute

To them come the losses of the rotary models with other angles under the same weights.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from safetensors.torch import load_file

import posenc as pe
from posenc.encoding import Encoding
from posenc.lab.config import RunConfig
from posenc.lab.evaluate import losses, spans
from posenc.lab.folder import WEIGHTS, read_run
from posenc.lab.tasks.text import Text
from posenc.lab.text import Corpus, standard_library

TARGET = Path(__file__).parent.parent / "posenc" / "explorer" / "data" / "compare.js"
# What all runs of a comparison share, as far as the page says it.
SHARED = ("dim", "depth", "heads", "batch", "steps", "spans")
# Other angles for a head of d dimensions that was trained on so many bytes, by how far it reads.
METHODS: dict[str, Callable[[int, int, float], Encoding]] = {
    "none": lambda d, _, factor: pe.Rotary(d),
    "linear": lambda d, _, factor: pe.Rotary(d, scaling=pe.Linear(factor)),
    "yarn": lambda d, trained, factor: pe.Rotary(d, scaling=pe.YaRN(factor, trained)),
    "ntk": lambda d, _, factor: pe.Rotary(d, scaling=pe.NTK(factor)),
    "rerope": lambda d, trained, _: pe.ReRoPE(d, window=trained - 1),
}


def data_of(report: dict[str, Any]) -> dict[str, Any]:
    """What the page keeps of report.json: the losses on fixed targets, and how they were found."""
    setting, encodings = report["setting"], report["encodings"]
    run = RunConfig.from_json(setting | {"encoding": "none", "settings": "", "seed": 0})
    return {
        "command": report["command"],
        "trainLength": report["train_length"],
        "lengths": report["lengths"],
        "targets": run.target_tokens,
        "model": {key: setting[key] for key in SHARED},
        "encodings": {
            name: {
                "category": encodings[name]["category"],
                "loss": {
                    length: {
                        **{key: round(value, 4) for key, value in found["interval"].items()},
                        "seeds": {seed: round(loss, 4) for seed, loss in found["seeds"].items()},
                    }
                    for length, found in encodings[name]["loss"]["targets"].items()
                },
            }
            for name in encodings
        },
    }


def methods_of(folders: list[Path], corpus: Corpus) -> dict[str, dict[str, float]]:
    """The loss of rotary runs by method and length beyond training, mean of the runs."""
    found: dict[str, dict[str, float]] = {}
    text = torch.frombuffer(bytearray(corpus.test), dtype=torch.uint8)
    for name in METHODS:
        by_length = [loss_by_length(folder, name, text) for folder in folders]
        found[name] = {str(n): round(fmean(one[n] for one in by_length), 4) for n in by_length[0]}
    return found


@torch.no_grad()
def loss_by_length(folder: Path, method: str, text: torch.Tensor) -> dict[int, float]:
    run = read_run(folder)
    assert run is not None, folder
    config, found = run.config, {}
    chosen = spans(text, max(config.test_lengths), config.spans)
    for length in config.test_lengths:
        if length <= config.train_length:
            continue
        factor = length / config.train_length
        encoding = METHODS[method](config.dim // config.heads, config.train_length, factor)
        model = pe.Transformer(
            Text().vocabulary, config.dim, config.depth, config.heads, encoding, causal=True
        ).eval()
        model.load_state_dict(load_file(folder / WEIGHTS))
        ends = chosen[:, -length - 1 : -1], chosen[:, -length:]
        scored = losses(model, *ends, config.heads)[:, -config.target_tokens :]
        found[length] = scored.mean().item()
    return found


def main() -> None:
    out = Path(sys.argv[1])
    data = data_of(json.loads((out / "report.json").read_text("utf-8")))
    runs = sorted((out / "runs").glob("rotary-*"))
    data["methods"] = methods_of(runs, standard_library())
    TARGET.write_text(
        "// Made by tools/compared_losses.py: nats per byte, mean of seeds and 95% interval.\n"
        f"export default {json.dumps(data, indent=1)};\n"
    )
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
