"""Tensors as JSON holds them."""

import math
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

# More digits say nothing of a measurement, and make a file large.
DIGITS = 5


def plain(value: float) -> float | None:
    """A number of few digits; None for what JSON has no number for."""
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def as_json(values: Tensor) -> Any:
    """A tensor as lists of plain numbers; whole numbers stay whole."""
    if not values.is_floating_point():
        return values.tolist()
    return plain(values.item()) if values.ndim == 0 else [as_json(x) for x in values.unbind()]


def as_lists(measured: Any) -> dict[str, Any]:
    """A dataclass of tensors, by name."""
    named = {field.name: getattr(measured, field.name) for field in fields(measured)}
    return {name: as_json(x) if isinstance(x, Tensor) else x for name, x in named.items()}


def mean_of(values: list[float | None]) -> float | None:
    """The mean of what there is."""
    known = torch.tensor([x for x in values if x is not None], dtype=torch.float64)
    return plain(known.mean().item()) if len(known) else None
