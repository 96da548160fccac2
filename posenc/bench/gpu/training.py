"""What the lab learns on a GPU: as much as on a CPU, and what encodings come to in seconds."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from posenc.bench.gpu.row import Found, Place, Row
from posenc.lab.config import RunConfig
from posenc.lab.sizes import size_of
from posenc.lab.statistics import mean
from posenc.lab.tasks import find
from posenc.lab.text import standard_library
from posenc.lab.train import train

ENCODINGS = (
    "none", "learned", "sinusoidal", "rotary", "rotary(scaling=YaRN(4, 512))", "alibi", "t5",
    "kerple", "fire", "forget_gate", "shaw", "transformer_xl",
)  # fmt: skip
SEEDS = 5
# What takes some minutes on two cores, and one claim of each kind of task.
CLAIMS = ("relative_beats_absolute", "nope_copies_farther")
# By their names here, tasks and precisions of the runs that both devices make.
BOTH = (("text", "float32"), ("text", "bfloat16"), ("copy(letters=4)", "float32"))
CLI = "from posenc.cli import main; main()"
# Differences that float32 itself makes.
ROUNDING = 1e-3


def rows(place: Place) -> Iterator[Row]:
    """Each encoding at 30 million parameters, and what claims cost here."""
    for encoding in ENCODINGS[:1] if place.tiny else ENCODINGS:
        yield Row(f"30 million parameters: {encoding}", trained, (encoding,))
    for claim in () if place.tiny else CLAIMS:
        yield Row(f"claim: {claim}", claimed, (claim,))


def on_both(place: Place) -> Iterator[Row]:
    """Runs that the CPU and the card make alike."""
    for task, precision in BOTH[2:] if place.tiny else BOTH:
        yield Row(f"CPU and GPU: {task}, {precision}", agreement, (task, precision))


def agreement(place: Place, task: str, precision: str) -> Found:
    """Differences of losses, seed by seed, at each length, with 95% intervals that hold 0 or not.

    The same small run on the CPU and here: batches are drawn alike, so only rounding differs.
    """
    config = RunConfig(
        "rotary", task=task, precision=precision, train_length=16, test_lengths=(16, 32),
        steps=2 if place.tiny else 200, batch=8, spans=8,
    )  # fmt: skip
    losses: dict[str, list[list[float]]] = {"cpu": [], "here": []}
    for device, where in (("cpu", "cpu"), ("here", place.device)):
        for seed in range(2 if place.tiny else SEEDS):
            _, tested = _run(replace(config, seed=seed), where)
            losses[device].append([row["loss"] for row in tested])
    cpu, here = (zip(*seeds, strict=True) for seeds in losses.values())
    pairs = (zip(*lengths, strict=True) for lengths in zip(here, cpu, strict=True))
    gaps = [[one - other for one, other in length] for length in pairs]
    found = [mean(gap, own_error=ROUNDING) for gap in gaps]
    return {
        # A task that tells no losses shows nothing.
        "right": bool(found) and all(one.low <= 0 <= one.high for one in found),
        "gaps": [[one.low, one.mean, one.high] for one in found],
        "losses": losses,
    }


def trained(place: Place, encoding: str) -> Found:
    """Loss by length after as many tokens as the others read, and seconds of a step."""
    dim, depth, heads = size_of("30k" if place.tiny else "30m")
    length, steps, batch = (16, 2, 4) if place.tiny else (512, 200, 64)
    config = RunConfig(
        encoding, dim=dim, depth=depth, heads=heads, train_length=length,
        test_lengths=tuple(length * times for times in (1, 2, 4, 8)), batch=batch,
        steps=steps, precision="bfloat16", learning_rate=1e-3,
        spans=2 if place.tiny else 32,
    )  # fmt: skip
    seconds, tested = _run(config, place.device)
    peak = torch.cuda.max_memory_allocated() / 2**30 if place.device == "cuda" else None
    return {
        "tokens": steps * batch * length,
        "seconds": seconds,
        "peak_gib": peak,
        "losses": {str(row["length"]): row["loss"] for row in tested},
    }


def claimed(place: Place, claim: str) -> Found:
    """How long a claim takes here, and what comes out."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", CLI, "claims", "run", claim, "--out", folder]
        began = time.perf_counter()
        ended = subprocess.run(
            [*command, "--device", place.device], capture_output=True, text=True, check=False
        )
        if ended.returncode:
            return {"failed": (ended.stdout + ended.stderr)[-600:]}
        seconds = time.perf_counter() - began
        told = json.loads(Path(folder, "results", f"{claim}.json").read_text())
    return {"seconds": seconds, "outcome": told["outcome"]}


def _run(config: RunConfig, device: str) -> tuple[float, list[dict]]:
    """Seconds of its training, and its rows of losses by length."""
    data = {}
    if config.of_text:
        corpus = standard_library()
        parts = {"train": corpus.train, "test": corpus.test}
        data = {k: torch.frombuffer(bytearray(v), dtype=torch.uint8) for k, v in parts.items()}
    task = find(config.task, **data)
    with tempfile.TemporaryDirectory() as out:
        folder = Path(out, "runs", "one")
        folder.mkdir(parents=True)
        began = time.perf_counter()
        model = train(config, task, folder, device=device)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        with torch.inference_mode():
            rows = [*task.evaluate(model.eval(), config, lambda share: None)]
    lengths = [row for row in rows if row["kind"] in ("loss", "accuracy")]
    return seconds, [row for row in lengths if row.get("protocol", "windows") == "windows"]
