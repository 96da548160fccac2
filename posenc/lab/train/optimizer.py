"""AdamW, and its learning rate over a budget."""

import math

import torch
from torch import nn

from posenc.lab.config import RunConfig
from posenc.lab.model import encoding_parameters


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
    # One kernel steps a group: parameters of which a process holds a part go apart from whole ones.
    groups: dict[tuple[bool, type], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        decays = parameter.ndim >= 2 and id(parameter) not in inside
        groups.setdefault((decays, type(parameter)), []).append(parameter)
    decaying_first = sorted(groups.items(), key=lambda group: not group[0][0])
    return torch.optim.AdamW(
        [
            {"params": parameters, "weight_decay": config.weight_decay if decays else 0.0}
            for (decays, _), parameters in decaying_first
        ],
        lr=config.learning_rate,
        betas=(0.9, 0.95),
        fused=True,
    )
