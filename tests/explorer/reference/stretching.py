"""What the panels of masks and of stretched rotations compute beyond their copied Python."""

from typing import Any

import torch

import posenc as pe
from posenc.analysis import measure
from posenc.encodings.scaling import Scaling
from posenc.mask_rules import Prefix
from posenc.terms import Mask
from tests.explorer.reference.numbers import numbers

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
    long = [factor ** min(1, 1.5 * (i / (d / 2 - 1)) ** 2) for i in range(d // 2)]
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
