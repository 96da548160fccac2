"""Training a model on windows whose positions skip ahead, as far as it is to read (PoSE).

Letters: n windows, t tokens.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc.errors import LabError
from posenc.extend.tune.settings import Tuning
from posenc.positions import Positions

# Of the steps: those at which the rate still rises, and those that first and last losses average.
PART = 10


@dataclass(frozen=True)
class Course:
    """How training went: mean losses (nats per token) of its first and last tenth, and seconds."""

    first: float
    last: float
    seconds: float


def train(
    model: Any,
    parameters: list[nn.Parameter],
    windows: Int[Tensor, "n t"],
    target: int,
    tuning: Tuning,
    generator: torch.Generator,
    tell: Callable[[dict[str, Any]], None],
) -> Course:
    """Change the parameters by AdamW, one window a step, to predict each next token.

    The rate rises over the first tenth of the steps, then stays; gradients are clipped to norm 1.
    Raises LabError where a loss or a gradient is no finite number.

    Source: Zhu et al. 2024 (PoSE), arXiv:2309.10400, section 3.2.
    """
    assert tuning.rate is not None
    optimizer = torch.optim.AdamW(parameters, lr=tuning.rate, weight_decay=0.0)
    part = math.ceil(tuning.steps / PART)
    losses: list[float] = []
    began = told = time.perf_counter()
    for step, ids in zip(range(1, tuning.steps + 1), shuffled(windows, generator), strict=False):
        skipped = Positions.skipping(len(ids), longest=target, generator=generator)
        loss = loss_of(model, ids, skipped.keys.position)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(parameters, 1.0).item()
        if not math.isfinite(losses[-1] + norm):
            raise LabError(
                f"training broke down at step {step} (loss {losses[-1]:g}, gradient {norm:g}); "
                f"give a lower --tune-lr than {tuning.rate:g}"
            )
        for group in optimizer.param_groups:
            group["lr"] = tuning.rate * min(1.0, step / part)
        optimizer.step()
        if time.perf_counter() - told >= 2.0:
            told = time.perf_counter()
            tell({"step": step, "steps": tuning.steps, "loss": losses[-1]})
    seconds = round(time.perf_counter() - began, 3)
    return Course(fmean(losses[:part]), fmean(losses[-part:]), seconds)


def loss_of(model: Any, ids: Int[Tensor, "t"], position: Int[Tensor, "t"]) -> Float[Tensor, ""]:
    """The mean loss of ids[1:], each predicted from all tokens before it."""
    row = ids[None].to(model.device)
    logits = model(
        input_ids=row,
        position_ids=position[None].to(row.device),
        # Without a mask transformers takes positions that skip for documents packed into a row,
        # which do not see each other.
        attention_mask=torch.ones_like(row),
        use_cache=False,
    ).logits[0]
    return nn.functional.cross_entropy(logits[:-1].float(), row[0, 1:])


def shuffled(windows: Int[Tensor, "n t"], generator: torch.Generator) -> Iterator[Int[Tensor, "t"]]:
    """All windows in a random order, then all again in another, without end."""
    while True:
        for index in torch.randperm(len(windows), generator=generator).tolist():
            yield windows[index]
