"""A learned table made twice as long: its loss before and after some steps of further training.

posenc compare --seeds 5 --encodings none,sinusoidal,learned,rotary
python -m tools.experiments.longer posenc-compare        five minutes on one core

The lab's models were trained on 64 bytes. The table's first 64 rows are taken and made 128 in three
ways; sinusoids and RoPE, which need no longer table, are trained on for comparison.
"""

import copy
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.encodings import Learned
from posenc.lab.config import RunConfig
from posenc.lab.evaluate import evaluate
from posenc.lab.intervals import Interval
from posenc.lab.step import batch_at
from posenc.lab.tasks.text import Text
from posenc.lab.text import standard_library
from posenc.lab.train import learning_rate, make_optimizer
from posenc.model import Transformer
from tools.experiments.intervals import mean_of, shown
from tools.experiments.trained import runs_of, trained

SHORT, LONG = 64, 128
LENGTHS = (64, 96, 128)
Start = Literal["random", "interpolate", "hierarchical"]
STEPS, LOOKS, RATE = 300, (0, 100, 300), 0.003
# Loss at each length, at each look.
Losses = dict[int, list[float]]


def extended(model: Transformer, method: Start) -> Transformer:
    """A copy whose table has LONG rows, which start from the first SHORT of the model's."""
    model = copy.deepcopy(model)
    (table,) = model.embedding.encodings
    assert isinstance(table, Learned)
    short = Learned.from_rows(table.weight.detach()[:SHORT])
    model.embedding.encodings[0] = short.extended(LONG, method)
    return model


def tuned(model: Transformer, config: RunConfig, train: Tensor, test: Tensor) -> Losses:
    """Train on LONG bytes, and look at the loss now and then."""
    tested = replace(config, test_lengths=LENGTHS, spans=512)
    config = replace(config, train_length=LONG, steps=STEPS, learning_rate=RATE)
    optimizer = make_optimizer(model, config)
    found: Losses = {}
    for step in range(STEPS + 1):
        if step in LOOKS:
            found[step] = losses(model, tested, test)
        if step == STEPS:
            return found
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, step / STEPS)
        batch = batch_at(Text(train=train), config, step)
        loss = F.cross_entropy(model(batch.tokens).flatten(0, 1), batch.targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return found


@torch.inference_mode()
def losses(model: Transformer, config: RunConfig, test: Tensor) -> list[float]:
    """Of the last 16 bytes of spans, read with so much text."""
    rows = [row for row in evaluate(model, config, test) if row.get("protocol") == "targets"]
    by_length = {row["length"]: row["loss"] for row in rows}
    return [float(str(by_length[length])) for length in LENGTHS]


def measured(folder: Path) -> Iterator[tuple[str, list[Losses]]]:
    """Losses of each start, seed by seed."""
    corpus = standard_library()
    train, test = (
        torch.frombuffer(bytearray(part), dtype=torch.uint8) for part in (corpus.train, corpus.test)
    )
    runs = runs_of(folder)
    for method in get_args(Start):
        found = []
        for run in runs["learned"]:
            torch.manual_seed(run.config.seed)
            found.append(tuned(extended(trained(run), method), run.config, train, test))
        yield method, found
    for name in ("sinusoidal", "rotary"):
        if name in runs:
            yield name, [tuned(trained(run), run.config, train, test) for run in runs[name]]


def main() -> None:
    heads = ("start", "steps", *map(str, LENGTHS), "128 minus random", "128 minus cut")
    print("|", " | ".join(heads), "|")
    print("|---" * len(heads) + "|")
    drawn: dict[int, list[float]] = {}
    cut: list[float] = []
    for name, seeds in measured(Path(sys.argv[1])):
        for step in LOOKS:
            at = [[found[step][i] for found in seeds] for i in range(len(LENGTHS))]
            drawn.setdefault(step, at[-1])
            # The first is the untouched table, which would read but the last 64 bytes.
            cut = cut or at[0]
            cells = [shown(mean_of(values)) for values in at]
            cells += [shown(less(at[-1], than), "+") for than in (drawn[step], cut)]
            print("|", " | ".join((name, str(step), *cells)), "|", flush=True)


def less(values: list[float], than: list[float]) -> Interval:
    return mean_of([a - b for a, b in zip(values, than, strict=True)])


if __name__ == "__main__":
    main()
