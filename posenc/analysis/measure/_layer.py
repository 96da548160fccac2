"""A layer that says nothing of its own: every token alike, projections drawn once."""

from dataclasses import replace

import torch

from posenc.analysis.probe_context import context_for
from posenc.encoding import Context, Encoding


def context_of_one_token(encoding: Encoding, length: int) -> Context | None:
    """What an encoding may read of a layer whose `length` tokens all have one content."""
    context = context_for(encoding, 1, batch=1)
    if context is None or context.x is None:
        return context
    x = context.x.to(device_of(encoding))
    return replace(context, x=x.expand(-1, length, -1))


def device_of(encoding: Encoding) -> torch.device:
    """Where its parameters are; the CPU where it has none."""
    first = next(encoding.parameters(), None)
    return torch.device("cpu") if first is None else first.device
