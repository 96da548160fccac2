"""What panels compute beyond what their copied Python shows, by the library.

python -m tests.explorer.details    writes fixtures/details.json anew
"""

import base64
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import posenc as pe
from posenc.analysis import measure
from posenc.encoding import Encoding
from posenc.encodings.scaling import Scaling
from posenc.terms import Mask, Prefix
from tests.explorer.configs import config, configs
from tests.explorer.fixtures import fixed, numbers, write

ROOT = Path(__file__).parent.parent.parent
TRAINED = ROOT / "posenc" / "explorer" / "data" / "trained.js"
# The shared settings of page.mjs.
PAGE: dict[str, Any] = {"d": 16, "base": 100, "length": 24, "heads": 4, "trained": 10}
WIDTH, STEP = 16, 3


def main() -> None:
    write("details", fixtures())


def fixtures() -> dict[str, Any]:
    return {name: part() for name, part in PARTS.items()}


CLOCKS: tuple[dict[str, Any], ...] = (
    {"position": 7, "count": 5, "speeds": "digits", "wave": "binary"},
    {"position": 23, "count": 4, "speeds": "geometric", "wave": "sine"},
    {"position": 23, "count": 6, "speeds": "digits", "wave": "triangle"},
    {"position": 12, "count": 3, "speeds": "geometric", "wave": "square"},
    {"position": 12, "count": 3, "speeds": "digits", "wave": "sawtooth"},
)


def clock(position: int, count: int, speeds: str, wave: Any) -> dict[str, Any]:
    periods = [2.0 ** (i + 1) for i in range(count)]
    if speeds == "geometric":
        periods = [2 * math.pi * PAGE["base"] ** (i / count) for i in range(count)]
    radians = [2 * math.pi / period for period in periods]
    digits = measure.position_table(pe.Binary(max(count, 7)), 65)[:, :count]
    hands = measure.position_table(pe.Waveform(2 * count, frequencies=radians), 65)
    rows = digits
    if wave != "binary":
        single = pe.Waveform(count, wave=wave, pairing="single", frequencies=radians)
        rows = measure.position_table(single, 65)
    settings = {"position": position, "count": count, "speeds": speeds, "wave": wave}
    return {
        "settings": settings,
        "periods": periods,
        "digits": numbers(digits[position]),
        "rows": numbers(rows[[0, 1, 7, 40, 63]]),
        "digitSteps": numbers(measure.resolution(digits)),
        "handStep": measure.resolution(hands)[position].item(),
    }


BIASES: tuple[dict[str, Any], ...] = (
    {"kind": "alibi", "head": 2},
    {"kind": "alibi", "heads": 6, "head": 5},
    {"kind": "t5", "buckets": 8, "max_distance": 9, "bidirectional": True},
    {"kind": "t5", "buckets": 6, "max_distance": 10, "bidirectional": False},
    {"kind": "kerple", "kernel": "log"},
    {"kind": "kerple", "kernel": "power"},
    {"kind": "sandwich"},
    {"kind": "fire"},
    {"kind": "shaw", "clip": 3},
    {"kind": "transformer_xl"},
    {"kind": "deberta", "span": 5, "log_buckets": False},
    {"kind": "deberta", "span": 12, "log_buckets": True, "buckets": 6},
)


def bias(case: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {"tokens": 12, "query": 7, "head": 1, "heads": PAGE["heads"]} | case
    heads, tokens, query, head = (settings[name] for name in ("heads", "tokens", "query", "head"))
    encoding = made_for_bias(settings)
    q, k = noise(2, 1, 1, tokens, WIDTH).expand(-1, -1, heads, -1, -1)
    found = {}
    for causal in (False, True):
        parts = pe.decompose(q, k, encoding, causal=causal)
        names = ("token_token", "token_position", "position_token", "position_position")
        rows = {name: numbers(getattr(parts, name)[0, head, query]) for name in names}
        rows["total"] = numbers(pe.scores(q, k, encoding, causal=causal)[0, head, query])
        if not causal:
            rows["heads"] = numbers(parts.position_position[0, :8, query])
        found["causal" if causal else "both"] = rows
    return {"settings": settings} | found


def noise(*shape: int) -> Tensor:
    n = torch.arange(1, math.prod(shape) + 1, dtype=torch.float64)
    return (2 * ((12.9898 * n).sin() * 43758.5453 % 1) - 1).view(shape)


def made_for_bias(settings: dict[str, Any]) -> Encoding:
    heads = settings["heads"]
    bucket = torch.arange(settings.get("buckets", 1), dtype=torch.float64)[:, None]
    head = torch.arange(heads, dtype=torch.float64)
    match settings["kind"]:
        case "alibi":
            return pe.ALiBi(heads)
        case "t5":
            names = ("buckets", "max_distance", "bidirectional")
            t5 = pe.T5Bias(heads, **{name: settings[name] for name in names})
            t5.weight.data = (bucket * head / 8).cos() - bucket / (4 * (head + 1))
            return t5
        case "kerple":
            kerple = pe.KERPLE(heads, settings["kernel"]).double()
            kerple.log_r1.data.zero_()
            kerple.raw_r2.data = ((head + 1) / heads).log()
            return kerple
        case "sandwich":
            return pe.Sandwich(heads, 128, PAGE["base"])
        case "fire":
            return filled(pe.FIRE(heads, initial_threshold=PAGE["trained"] / 2), 0.5)
        case "shaw":
            return filled(pe.Shaw(WIDTH, settings["clip"], values=False))
        case "transformer_xl":
            return filled(pe.TransformerXL(WIDTH, heads, WIDTH, base=PAGE["base"]))
        case _:
            buckets = settings["buckets"] if settings["log_buckets"] else None
            own: dict[str, Any] = {"head_dim": WIDTH, "projections": "own"}
            return filled(pe.DeBERTa(WIDTH, heads, settings["span"], buckets, **own))


def filled(encoding: Encoding, amplitude: float = (2 / WIDTH) ** 0.5) -> Encoding:
    start = 0
    for parameter in encoding.double().parameters():
        if parameter.ndim:
            parameter.data = fixed(*parameter.shape, start=start, amplitude=amplitude)
            start += parameter.numel()
    return encoding


MASKS: tuple[dict[str, Any], ...] = (
    {"rule": "everything", "causal": True},
    {"rule": "everything", "causal": False},
    {"rule": "window", "width": 3, "causal": True},
    {"rule": "window", "width": 2, "causal": False, "convention": "besides"},
    {"rule": "window", "width": 3, "causal": True, "sinks": 2},
    {"rule": "chunk", "width": 4, "causal": True},
    {"rule": "chunk", "width": 5, "causal": False},
    {"rule": "prefix", "prefix_count": 4},
)


def masks(case: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {"tokens": 14, "layers": 4, "query": 13} | case
    tokens, rule = settings["tokens"], settings["rule"]
    width = settings.get("width", 1) + (settings.get("convention") == "besides")
    parts: list[Any] = []
    if rule == "window":
        parts = [pe.SlidingWindow(width)]
        parts += [pe.Sinks(settings["sinks"])] if settings.get("sinks") else []
    elif rule == "chunk":
        parts = [pe.Documents(torch.arange(tokens) // width)]
    elif rule == "prefix":
        parts = [Mask(Prefix(settings["prefix_count"]))]
    blank = torch.zeros(1, 1, tokens, 2)
    found = pe.scores(blank, blank, parts, causal=settings.get("causal", True))
    sees = (found > -torch.inf)[0, 0].double()
    first, reached = sees.long(), sees
    for layer in range(2, settings["layers"] + 1):
        reached = (sees @ reached > 0).double()
        first = torch.where((first == 0) & (reached > 0), layer, first)
    return {"settings": settings, "seen": int(sees.sum()), "first": first.flatten().tolist()}


STRETCHES: tuple[dict[str, Any], ...] = (
    {"method": "linear", "factor": 4},
    {"method": "ntk", "factor": 4},
    {"method": "dynamic_ntk", "factor": 4},
    {"method": "yarn", "factor": 4, "beta_fast": 8, "beta_slow": 1},
    {"method": "llama3", "factor": 4, "low": 1, "high": 4},
    {"method": "longrope", "factor": 4},
)


def stretching(case: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {"d": 16, "base": 10_000, "trained": 64, "overlay": False} | case
    d, base, trained, factor = (settings[name] for name in ("d", "base", "trained", "factor"))
    long = [factor ** (i / (d / 2 - 1)) for i in range(d // 2)]
    scaling: Scaling = {
        "linear": lambda: pe.Linear(factor),
        "ntk": lambda: pe.NTK(factor),
        "dynamic_ntk": lambda: pe.DynamicNTK(factor, trained),
        "yarn": lambda: pe.YaRN(factor, trained, settings["beta_fast"], settings["beta_slow"]),
        "llama3": lambda: pe.Llama3(factor, settings["low"], settings["high"], trained),
        "longrope": lambda: pe.LongRoPE([1.0] * len(long), long, trained, factor),
    }[settings["method"]]()
    plain, scaled = pe.Rotary(d, base), pe.Rotary(d, base, scaling=scaling)
    target = trained * factor
    budget = measure.budget(scaled, trained, target, trained=plain)
    assert budget.turns is not None
    assert budget.new_angles is not None
    return {
        "settings": settings,
        "target": target,
        "wavelengths": numbers(measure.wavelengths(measure.frequencies(scaled, target)[0])),
        "turns": numbers(budget.turns[0]),
        "once": int((budget.turns < 1).sum()),
        "fresh": int(budget.new_angles.sum()),
        "gain": scaling.gain,
    }


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


PARTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "clock": lambda: [clock(**case) for case in CLOCKS],
    "bias": lambda: [bias(case) for case in BIASES],
    "masks": lambda: [masks(case) for case in MASKS],
    "stretching": lambda: [stretching(case) for case in STRETCHES],
    "configs": lambda: [config(*case) for case in configs()],
    "waves": lambda: [wave(*case) for case in WAVES],
    "trained": lambda: [trained(table) for table in ("learned", "floater")],
}


if __name__ == "__main__":
    main()
