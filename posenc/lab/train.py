"""Train one model: the same text in the same order for every encoding, exact after a resume."""

import hashlib
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int64, UInt8
from torch import Tensor, nn

from posenc.api import Transformer, make
from posenc.encoding import Encoding
from posenc.errors import LabError
from posenc.lab.checkpoint import Clock, load_checkpoint, save_checkpoint, save_tensors
from posenc.lab.config import RunConfig
from posenc.lab.folder import CHECKPOINT, RESULTS, WEIGHTS, append_row, read_rows
from posenc.lab.hardware import peak_memory_mb
from posenc.lab.trained_reach import trained_reach

CHECKPOINT_SECONDS = 20.0
VOCABULARY = 256


@dataclass(frozen=True)
class Progress:
    """What a running training tells the outside after each step."""

    fraction: float
    step: int
    loss: float
    tokens_per_second: float


class Stop(BaseException):
    """Raised by whoever listens to `Progress`, to end the training with a checkpoint."""


def make_encoding(config: RunConfig) -> Encoding:
    """The encoding of a configuration, with room for the longest test length."""
    return make(
        config.encoding,
        model_dim=config.dim,
        heads=config.heads,
        max_length=max(config.test_lengths),
        train_length=config.train_length,
        causal=True,
    )


def build(config: RunConfig) -> Transformer:
    """The model of a configuration, freshly initialised from its seed.

    Weights outside the encoding are those of the model without one, where their shapes agree.
    """
    torch.manual_seed(config.seed)
    model = _transformer(config, make_encoding(config))
    torch.manual_seed(config.seed)
    plain = _transformer(config, None).state_dict()
    own = model.state_dict()
    same = {name for name in plain.keys() & own.keys() if plain[name].shape == own[name].shape}
    model.load_state_dict(own | {name: plain[name] for name in same})
    return model


def batch_at(
    text: UInt8[Tensor, " n"], config: RunConfig, step: int
) -> tuple[Int64[Tensor, "b t"], Int64[Tensor, "b t"]]:
    """Inputs and next bytes of one step; they depend on the seed and the step alone."""
    generator = torch.Generator().manual_seed(_seed(config.seed, step))
    starts = torch.randint(len(text) - config.train_length, (config.batch,), generator=generator)
    chosen = text[starts[:, None] + torch.arange(config.train_length + 1)].long()
    return chosen[:, :-1], chosen[:, 1:]


def learning_rate(config: RunConfig, used: float) -> float:
    """Linear rise over the first `warmup` of the budget, then half a cosine down to zero."""
    if used < config.warmup:
        # The first step must move, although nothing of the budget is used yet.
        return config.learning_rate * max(used / config.warmup, 0.01)
    done = (used - config.warmup) / (1 - config.warmup)
    return config.learning_rate * (1 + math.cos(math.pi * done)) / 2


def make_optimizer(model: nn.Module, config: RunConfig) -> torch.optim.Optimizer:
    """AdamW; only matrices outside the encoding decay, so an untrained row stays as it began."""
    inside = {id(parameter) for parameter in encoding_parameters(model)}
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for parameter in model.parameters():
        groups[parameter.ndim >= 2 and id(parameter) not in inside].append(parameter)
    return torch.optim.AdamW(
        [
            {"params": parameters, "weight_decay": config.weight_decay if decays else 0.0}
            for decays, parameters in groups.items()
        ],
        lr=config.learning_rate,
        betas=(0.9, 0.95),
        fused=True,
    )


def train(
    config: RunConfig,
    text: UInt8[Tensor, " n"],
    folder: Path,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> nn.Module:
    """Train in `folder`, from its checkpoint if there is one; weights and rows are left there.

    `tell` hears of each step and may raise `Stop`: a checkpoint is written first. Raises LabError
    when the loss is no longer a finite number.
    """
    before = peak_memory_mb()
    model = build(config).train()
    optimizer = make_optimizer(model, config)
    clock = load_checkpoint(folder / CHECKPOINT, model, optimizer)
    rows, _ = read_rows(folder / RESULTS)
    logged = max((row["step"] for row in rows if row["kind"] == "train"), default=0)
    every = max(1, (config.steps or 0) // 40)
    saved = last_row = time.monotonic()
    times: list[float] = []

    while clock.used(config) < 1:
        began = time.perf_counter()
        loss = _step(model, optimizer, config, text, clock)
        elapsed = time.perf_counter() - began
        times.append(elapsed)
        clock.step += 1
        clock.seconds += elapsed
        clock.loss_sum += loss
        clock.loss_count += 1

        now = time.monotonic()
        ends = clock.used(config) >= 1
        # A budget in steps gives the same rows on every machine; one in minutes cannot.
        due = clock.step % every == 0 if config.steps else now - last_row > 2
        if due or ends:
            if clock.step > logged:
                append_row(folder / RESULTS, _train_row(config, clock))
            clock.loss_sum, clock.loss_count, last_row = 0.0, 0, now
        if now - saved > CHECKPOINT_SECONDS:
            save_checkpoint(folder / CHECKPOINT, model, optimizer, clock)
            saved = now
        try:
            tokens = config.batch * config.train_length
            tell(Progress(min(clock.used(config), 1.0), clock.step, loss, tokens / elapsed))
        except Stop:
            save_checkpoint(folder / CHECKPOINT, model, optimizer, clock)
            raise

    save_tensors(folder / WEIGHTS, model.state_dict(), {"config": json.dumps(config.to_json())})
    after = peak_memory_mb()
    held = None if before is None or after is None else after - before
    append_row(folder / RESULTS, _cost_row(config, model, clock, times, held))
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return model


def encoding_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that belong to encodings, each once."""
    found = {
        id(parameter): parameter
        for module in model.modules()
        if isinstance(module, Encoding)
        for parameter in module.parameters()
    }
    return list(found.values())


def _transformer(config: RunConfig, encoding: Encoding | None) -> Transformer:
    return Transformer(
        vocab_size=VOCABULARY,
        dim=config.dim,
        depth=config.depth,
        heads=config.heads,
        encoding=encoding,
        max_length=max(config.test_lengths),
        causal=True,
    )


def _step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    config: RunConfig,
    text: UInt8[Tensor, " n"],
    clock: Clock,
) -> float:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(config, clock.used(config))
    inputs, targets = batch_at(text, config, clock.step)
    # An encoding that draws random positions draws the same ones after a resume.
    torch.manual_seed(_seed(config.seed, clock.step))
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    value = loss.item()
    if not math.isfinite(value):
        raise LabError(
            f"the loss became {value} at step {clock.step + 1}: try a lower learning rate, or look "
            f"at the encoding's numbers with `posenc check {config.encoding}`"
        )
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return value


def _train_row(config: RunConfig, clock: Clock) -> dict[str, Any]:
    return {
        "kind": "train",
        "step": clock.step,
        "tokens": clock.step * config.batch * config.train_length,
        "loss": clock.loss_sum / clock.loss_count,
        "seconds": round(clock.seconds, 3),
    }


def _cost_row(
    config: RunConfig, model: nn.Module, clock: Clock, times: list[float], memory: float | None
) -> dict[str, Any]:
    # A run that was resumed after its last step has no times of its own.
    encoding = next(module for module in model.modules() if isinstance(module, Encoding))
    reach = trained_reach(encoding, config.train_length)
    step_seconds = statistics.median(times or [clock.seconds / clock.step])
    return {
        "kind": "cost",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "encoding_parameters": sum(p.numel() for p in encoding_parameters(model)),
        "steps": clock.step,
        "seconds": round(clock.seconds, 3),
        "ms_per_step": 1000 * step_seconds,
        "peak_memory_mb": memory,
        "trained_position": reach.position,
        "trained_distance": reach.distance,
    }


def _seed(seed: int, step: int) -> int:
    # torch's CPU generator reads 32 bits of its seed, so shifting one of the two would lose it.
    return int.from_bytes(hashlib.sha256(f"{seed}/{step}".encode()).digest()[:4])
