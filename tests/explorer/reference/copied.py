"""What panels show, computed by the Python that they give to copy."""

import contextlib
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import torch

from tests.explorer.reference.numbers import numbers

# What is compared of each panel, by the names that its code gives.
SHOWN = {
    "permutation": {"change": "change", "last": "before[-1]"},
    "number": {
        "rows": "vectors",
        "angle": "angle(*vectors)",
        "without": "angle(*words[0])",
        "step": "vectors[1, -1] - vectors[0, -1]",
    },
    "binary": {"rows": "digits", "apart": "apart", "flips": "flips"},
    "circle": {"point": "torch.stack((cosine[here], sine[here]))"},
    "clock": {
        "row": "table[position % 64]",
        "hands": "[position / period % 1 for period in periods]",
        "digit_step": "measure.resolution(digits)[position % 64]",
        "hand_step": "measure.resolution(hands)[position % 64]",
    },
    "waves": {"shape": "list(table.shape)", "rows": "table[[0, 1, 5, 10, 23]]"},
    "distance": {
        "mean": "curves.mean(dim=0)",
        "low": "curves.amin(dim=0)",
        "high": "curves.amax(dim=0)",
        "part": "globals().get('part', [])",
    },
    "rotation": {
        "both": "both",
        "alone": "[score(12 + shift, 5) for shift in range(65)]",
        "cells": "[score(*at) for at in [(0, 31), (31, 0), (7, 19), (20, 20)]]",
    },
    "bias": {
        "row": "score[0, {head}, {query}]",
        "attention": "attention",
        "effective": "torch.distributions.Categorical(attention).entropy().exp()",
    },
    "masks": {
        "pairs": "sees.sum()",
        "reach": "[int(sum(torch.linalg.matrix_power(sees, n) for n in range(1, layer + 1))"
        "[query].gt(0).sum()) for layer in range(1, layers + 1)]",
    },
    "beyond": {
        "rows": "torch.cat(list(rows.values()))",
        "unseen": "torch.cat([fresh(each) for each in encodings.values()])",
        "angles": "angles",
        "fresh": "new",
    },
    "stretching": {
        "wavelengths": "measure.wavelengths(h)",
        "once": "once.sum()",
        "gain": "1.0 if scaling is None else scaling.gain",
    },
    "precision": {
        "worst": "error.flatten(end_dim=-2).amax(dim=0)",
        "distinct": "len(every.double().unique())",
        "equal": "(every[1:] == every[:-1]).nonzero()[:1, 0] + 1",
    },
    "own_wave": {
        "rows": "table[[0, 1, 5, 23, 60]]",
        "mean": "products.mean[products.distance >= 0][:24]",
        "distinct": "measure.uniqueness((table * 1e9).round()).distinct",
    },
    "trained": {"sizes": "rows.norm(dim=-1)", "cosines": "cosines[{position}]"},
}


def asked_of_node(folder: Path) -> list[dict[str, Any]]:
    """The cases: panel, settings, and the Python that the panel gives."""
    found = subprocess.run(
        ["node", "copied.mjs"], cwd=folder, capture_output=True, text=True, check=True
    )
    return json.loads(found.stdout)


def computed(case: dict[str, Any]) -> dict[str, Any]:
    """The panel and the settings of a case, and what its Python computes."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(case["python"], f"copied from {case['panel']}", "exec"), names)
    defaults = {"head": 0, "query": 16, "position": 40}
    expected = {}
    for key, expression in SHOWN[case["panel"]].items():
        value = eval(expression.format(**(defaults | case["settings"])), names | {"torch": torch})
        expected[key] = numbers(torch.as_tensor(value, dtype=torch.float64).flatten())
    # With one draw the lowest, the mean and the highest are the same.
    if case["panel"] == "distance" and expected["low"] == expected["high"]:
        expected = {name: expected[name] for name in ("mean", "part")}
    return {"panel": case["panel"], "settings": case["settings"], "expected": expected}
