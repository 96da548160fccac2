"""What the panels of own waves and of trained tables compute beyond their copied Python."""

import base64
import json
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import posenc as pe
from posenc.analysis import measure
from posenc.explorer.bundle import SOURCE
from tests.explorer.reference.numbers import PAGE, numbers

TRAINED = SOURCE / "data" / "trained.js"
STEP = 3

Turns = Tensor
POINTS = [0, 0.5, 1, 0.25, -0.5, -1, -0.75, -0.2]


def through_points(turns: Turns) -> Turns:
    at = turns % 1 * len(POINTS)
    below = at.floor().long().clamp(max=len(POINTS) - 1)
    points = torch.tensor([*POINTS, POINTS[0]], dtype=torch.float64)
    return points[below] + (points[below + 1] - points[below]) * (at - below)


def typed(text: str) -> dict[str, Any]:
    return {"source": "typed", "expression": text}


WAVES: tuple[tuple[dict[str, Any], Callable[[Turns], Turns]], ...] = (
    (typed("sin(2*pi*t)"), lambda t: (2 * math.pi * t).sin()),
    (typed("sin(2*pi*t)") | {"pairing": "single"}, lambda t: (2 * math.pi * t).sin()),
    (typed("sin(2*pi*t)") | {"pairing": "mismatched"}, lambda t: (2 * math.pi * t).sin()),
    (typed("sin(2*pi*t)") | {"frequencies": "one"}, lambda t: (2 * math.pi * t).sin()),
    (typed("1 - 4*abs((t + 1/4) % 1 - 0.5)"), lambda t: 1 - 4 * ((t + 0.25) % 1 - 0.5).abs()),
    (typed("square(t)"), lambda t: 1 - 2 * (t % 1 >= 0.5).double()),
    (typed("max(-0.5, min(sin(2*PI*t), frac(t)))^3 / 2"), lambda t: mixed(t)),
    (typed("t / 100"), lambda t: t / 100),
    (typed("exp(-t)"), lambda t: (-t).exp()),
    ({"source": "drawn", "points": POINTS}, through_points),
)


def mixed(t: Turns) -> Turns:
    return (2 * math.pi * t).sin().minimum(t % 1).clamp(min=-0.5) ** 3 / 2


def wave(case: dict[str, Any], function: Callable[[Turns], Turns]) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "dims": 8,
        "pairing": "quadrature",
        "frequencies": "geometric",
    } | case
    length, dims = 64, settings["dims"]
    kinds = {name: settings[name] for name in ("pairing", "frequencies")}
    own = pe.Waveform(dims, function, base=PAGE["base"], **kinds)
    table = measure.position_table(own, length)
    later = measure.position_table(own, 4 * length)[length:]
    far = measure.position_table(own, torch.arange(length, 64 * length, length // 16))
    products = measure.by_distance(measure.inner_products(table))
    mean = products.mean[products.distance >= 0]
    room = ((table.amax(0) - table.amin(0)) / 100).clamp(min=1e-9)
    outside = (later < table.amin(0) - room) | (later > table.amax(0) + room)
    pairs = [table[:, j : j + 2] for j in range(0, dims, 2)]
    return {
        "settings": settings,
        "rows": numbers(table[[0, 1, 5, 63]]),
        "distinct": measure.uniqueness((table * 1e9).round()).distinct,
        "far": measure.boundedness(far)[-1].item(),
        "residual": max(measure.shift(pair, STEP).residual for pair in pairs),
        "spread": (products.spread.max() / mean[0]).item(),
        "mean": numbers(mean),
        "fall": ((mean[1:17].mean() - mean[length // 2 :].mean()) / mean[0]).item(),
        "beyond": int(outside.any(0).sum()),
    }


def trained(table: str) -> dict[str, Any]:
    """The stored table of the longest run, and what it looks like."""
    text = TRAINED.read_text("utf-8")
    data = json.loads(text[text.index("{") : text.rindex("}") + 1])
    steps = data["steps"][-1]
    run = next(r for r in data["runs"] if (r["encoding"], r["steps"]) == (table, steps))
    values = torch.frombuffer(bytearray(base64.b64decode(run["values"])), dtype=torch.int8)
    rows = values.view(data["rows"], data["dim"]).double() * run["scale"]
    known = rows[: data["trainLength"]]
    centred = rows - known.mean(dim=0)
    sizes, directions = torch.linalg.eigh(known.T.cov(correction=0))
    directions = directions.flip(-1)[:, :3]
    largest = directions.abs().argmax(dim=0)
    directions = directions * directions.gather(0, largest[None]).sign()
    position = 40
    cosines = torch.nn.functional.cosine_similarity(centred[position], centred, dim=-1)
    return {
        "settings": {"table": table, "steps": str(steps), "position": position, "centred": True},
        "norms": numbers(rows.norm(dim=-1)),
        "cosines": numbers(cosines),
        "shares": numbers(sizes.flip(0)[:3] / sizes.sum()),
        "paths": numbers((centred @ directions).T),
    }
