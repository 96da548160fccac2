"""Training step of the lab's Transformer: posenc and x-transformers against no position.

    python -m benchmarks [--lengths 64,512] [--encodings all] [--rounds 15] [--json FILE]

Every case runs in turns in one process; figures are medians of ratios, in brackets where the median
lies 19 times of 20. `posenc bench` measures the rest.
"""

import argparse
import gc
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

import posenc
from posenc.bench.decoders import PEERS, Plain, Shape, ours, peer, training_step
from posenc.bench.timing import in_turns, ratio

RATIOS = ("posenc / plain", "peer / plain", "posenc / peer")


def every_name() -> list[str]:
    """Every encoding that the lab compares."""
    return [name for name, kind in posenc.encodings().items() if kind.tags.comparable is True]


def measure(names: Sequence[str], shape: Shape, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Quartiles of each ratio, by encoding; a peer that lacks an encoding has none."""
    models: dict[str, nn.Module] = {"plain": Plain(shape)}
    models |= {f"posenc {name}": ours(name, shape) for name in names}
    models |= {f"peer {name}": peer(name, shape) for name in names if name in PEERS}
    counts = [sum(p.numel() for p in model.parameters()) for model in models.values()]
    print(f"\n{shape}\nparameters: {min(counts):,} to {max(counts):,}; peer: x-transformers")
    steps = {name: training_step(model, shape) for name, model in models.items()}
    seconds = in_turns(steps, seconds=0.0, rounds=(rounds, rounds))
    print("".join(f"{title:>26}" for title in ("", *RATIOS)))
    table = {}
    for name in names:
        own, other = seconds[f"posenc {name}"], seconds.get(f"peer {name}")
        row = {"posenc / plain": ratio(own, seconds["plain"])}
        if other is not None:
            row["peer / plain"] = ratio(other, seconds["plain"])
            row["posenc / peer"] = ratio(own, other)
        print(f"{name:>26}" + "".join(f"{row.get(title, '-')!s:>26}" for title in RATIOS))
        table[name] = {title: [r.low, r.median, r.high] for title, r in row.items()}
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--lengths", default="64,512")
    parser.add_argument(
        "--encodings", default=",".join((*PEERS, "shaw")), help="names between commas, or all"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    names = every_name() if options.encodings == "all" else options.encodings.split(",")
    tables = {}
    for length in map(int, options.lengths.split(",")):
        # As many tokens a step at every length.
        shape = Shape(dim=128, depth=2, heads=4, length=length, batch=max(1, 2048 // length))
        tables[length] = measure(names, shape, options.rounds)
        gc.collect()
    if options.json:
        options.json.write_text(json.dumps(tables, indent=2))


if __name__ == "__main__":
    main()
