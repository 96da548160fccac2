"""What the panels of clocks and of biases compute beyond what their copied Python shows."""

import math
from typing import Any

import torch
from torch import Tensor

import posenc as pe
from posenc.analysis import measure
from posenc.encoding import Encoding
from posenc.explorer.tables import filled
from tests.explorer.reference.numbers import PAGE, numbers

WIDTH = 16
AMPLITUDE = (2 / WIDTH) ** 0.5
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
            side = settings["buckets"] // (2 if settings["bidirectional"] else 1)
            step = bucket % side + bucket // side
            t5.weight.data = (step * head / 8).cos() - step / (4 * (head + 1))
            return t5
        case "kerple":
            kerple = pe.KERPLE(heads, settings["kernel"]).double()
            kerple.log_r1.data.zero_()
            kerple.raw_r2.data = ((head + 1) / heads).log()
            return kerple
        case "sandwich":
            return pe.Sandwich(heads, 128, PAGE["base"])
        case "fire":
            return filled(pe.FIRE(heads, initial_threshold=PAGE["trained"] / 2))
        case "shaw":
            return filled(pe.Shaw(WIDTH, settings["clip"], values=False), AMPLITUDE)
        case "transformer_xl":
            return filled(pe.TransformerXL(WIDTH, heads, WIDTH, base=PAGE["base"]), AMPLITUDE)
        case _:
            buckets = settings["buckets"] if settings["log_buckets"] else None
            own: dict[str, Any] = {"head_dim": WIDTH, "projections": "own"}
            return filled(pe.DeBERTa(WIDTH, heads, settings["span"], buckets, **own), AMPLITUDE)
