"""A flash kernel of our own in Triton, for tables and slopes over the distance, on NVIDIA GPUs.

Linear in memory, training included; a table's gradient is summed along diagonals, without
atomics. TRITON_INTERPRET=1 runs it on CPU tensors, for tests.
"""

import os
from importlib.util import find_spec

import torch
from torch import Tensor

from posenc.backends.call import Call
from posenc.backends.diagonals import aligned
from posenc.backends.turn import operands
from posenc.equation import mask_rules
from posenc.terms import (
    DistanceTable,
    Mask,
    Prefix,
    Rotate,
    Scale,
    Sink,
    Slope,
    Window,
)

_WIDEST = 256


def refusal(call: Call) -> str | None:
    machine = _machine(call.q.device)
    if machine is not None:
        return machine
    terms, positions = call.lowered.terms, call.lowered.positions
    if call.dropout:
        return "it has no dropout"
    if max(call.q.shape[-1], call.v.shape[-1]) > _WIDEST:
        return f"heads wider than {_WIDEST} do not fit its tiles"
    plain = positions.in_order and positions.unit_step
    if not plain and positions.queries.order is None and positions.q_len > positions.k_len:
        return "more queries than keys have no order"
    varies = any(isinstance(term, Scale) and isinstance(term.factor, Tensor) for term in terms)
    for term in terms:
        if not isinstance(term, (Rotate, DistanceTable, Slope, Scale, Mask)):
            return f"{type(term).__name__} is no function of the distance alone"
        if isinstance(term, Rotate) and not (term.q_log_scale is term.k_log_scale is None):
            return "factors that grow with position need float64 scores"
        if not isinstance(term, (DistanceTable, Slope)):
            continue
        if term.inside and varies:
            return "a bias inside a scale that differs by query is no function of the distance"
        at = positions.queries.position
        if not plain and (at.ndim > 2 or at.is_floating_point()):
            return "distances must be whole numbers of one axis"
        if not plain and _learns(term) and not (positions.unit_step and aligned(positions)):
            return "a table's gradient is summed along diagonals, and these positions have none"
    return None


def passed_over(call: Call) -> str | None:
    if call.q.device.type == "cpu":
        return "in Triton's interpreter it is for tests"
    if not any(isinstance(term, (DistanceTable, Slope)) for term in call.lowered.terms):
        return "without a bias there is nothing that it does better than SDPA"
    return None


def attend(call: Call) -> Tensor:
    from posenc.triton.attention import attend as flash

    q, k, v, scale = operands(call)
    table, zero, slopes = _biases(call, scale)
    rules = _rules(call)
    places = None if rules.plain else _places(call)
    return flash(q, k, v, rules, scale, table, zero, slopes, places).to(call.v.dtype)


def _machine(device: torch.device) -> str | None:
    if device.type == "cpu":
        if os.environ.get("TRITON_INTERPRET") != "1":
            return "it runs on NVIDIA GPUs (TRITON_INTERPRET=1 runs it on CPU, for tests)"
    elif device.type != "cuda":
        return f"it runs on NVIDIA GPUs, not on {device.type}"
    return None if _installed() else "Triton is not installed (torch for CUDA brings it)"


@torch.compiler.assume_constant_result
def _installed() -> bool:
    return find_spec("triton") is not None


def _learns(term: DistanceTable | Slope) -> bool:
    if isinstance(term, DistanceTable):
        return torch.is_grad_enabled() and term.values.requires_grad
    both = (term.past, term.past if term.future is None else term.future)
    return torch.is_grad_enabled() and any(slope.requires_grad for slope in both)


def _biases(call: Call, scale: float) -> tuple[Tensor | None, int, tuple[Tensor, Tensor] | None]:
    """All tables as one, with its zero, and all slopes as one pair."""
    tables: list[tuple[Tensor, int]] = []
    slopes: list[tuple[Tensor, Tensor]] = []
    for term in call.lowered.terms:
        if isinstance(term, DistanceTable):
            tables.append((term.values * scale if term.inside else term.values, term.zero))
        elif isinstance(term, Slope):
            future = term.past if term.future is None else term.future
            factor = scale if term.inside else 1.0
            pair = term.past * factor, future * factor
            if _learns(term):
                tables.append(_as_table(pair, call.lowered.positions.k_len))
            else:
                slopes.append(pair)
    summed = None
    if slopes:
        past, future = (torch.stack(side).sum(0) for side in zip(*slopes, strict=True))
        summed = past, future
    if not tables:
        return None, 0, summed
    if len(tables) == 1:
        return *tables[0], summed
    zero = max(zero for _, zero in tables)
    ahead = max(values.shape[-1] - zero for values, zero in tables)
    distance = torch.arange(-zero, ahead, device=call.q.device)
    whole = [values[:, (distance + own).clamp(0, values.shape[-1] - 1)] for values, own in tables]
    return sum(whole[1:], whole[0]), zero, summed


def _as_table(slopes: tuple[Tensor, Tensor], length: int) -> tuple[Tensor, int]:
    """Slopes that learn, as a table over the distances of plain positions."""
    past, future = slopes
    distance = torch.arange(1 - length, length, device=past.device)
    return torch.where(
        distance <= 0, past[:, None] * distance, -future[:, None] * distance
    ), length - 1


def _rules(call: Call):
    from posenc.triton.scene import Rules

    positions, rules = call.lowered.positions, mask_rules(call.lowered.terms)
    windows = [rule.width for rule in rules if isinstance(rule, Window)]
    sinks = [rule.count for rule in rules if isinstance(rule, Sink)]
    prefixes = [rule.count for rule in rules if isinstance(rule, Prefix)]
    return Rules(
        positions.causal,
        min(windows) if windows else 0,
        max(sinks) if sinks else 0,
        max(prefixes) if prefixes else 0,
        positions.in_order and positions.unit_step,
    )


def _places(call: Call) -> list[Tensor]:
    """Coordinates, orders, documents and validity, as `posenc.triton.scene.PLACES` lists them."""
    positions = call.lowered.positions
    needed = any(isinstance(term, (DistanceTable, Slope)) for term in call.lowered.terms)
    orders = positions.orders()
    q_document, k_document = positions.queries.document, positions.keys.document
    if q_document is None or k_document is None:
        q_document, k_document = torch.zeros_like(orders[0]), torch.zeros_like(orders[1])
    valid = positions.keys.valid
    if valid is None:
        valid = torch.ones_like(orders[1], dtype=torch.bool)
    coordinates = (positions.queries.position, positions.keys.position) if needed else orders
    # Orders count tokens; coordinates and documents may be any int64.
    each = (*coordinates, *(x.int() for x in orders), q_document, k_document, valid)
    return [x.view(-1, x.shape[-1]) for x in each]
