"""Single functions of the page: buckets, slopes, scalings, places on a grid, masks, roundings."""

import math
from typing import Any

import torch

import posenc
from posenc.encodings.scaling import Scaling
from posenc.explorer.tables import fixed
from posenc.mask_rules import Prefix, Sink, Window
from posenc.positions import Positions
from tests.explorer.reference.numbers import camel, numbers, plain


def values() -> dict[str, Any]:
    return {
        "t5": list(map(t5, T5)),
        "deberta": list(map(deberta, DEBERTA)),
        "alibi": [slopes(heads, kind) for heads in (1, 2, 3, 8, 12, 20, 33) for kind in KINDS],
        "scalings": [scaling(*case) for case in scaling_cases()],
        "axial": [axial(16, 2, [3, 5]), axial(24, 3, [2, 0, 7])],
        "mrope": [mrope((2, 3, 3), False), mrope((16, 24, 24), False), mrope((24, 20, 20), True)],
        "masks": [mask(rule) for rule in RULES],
        "precision": rounded(),
    }


T5 = (
    {"buckets": 32, "max_distance": 128},
    {"buckets": 32, "max_distance": 128, "bidirectional": True},
    {"buckets": 8, "max_distance": 20},
    {"buckets": 12, "max_distance": 30, "bidirectional": True},
    {"buckets": 10, "max_distance": 64, "bidirectional": True},
    {"buckets": 16, "max_distance": 128},
    {"buckets": 32, "max_distance": 256, "bidirectional": True},
    {"buckets": 64, "max_distance": 1000},
    {"buckets": 2, "max_distance": 3},
    # Here float64 puts whole powers of two into other buckets than float32.
    {"buckets": 18, "max_distance": 128, "bidirectional": True},
    {"buckets": 48, "max_distance": 216},
)
# In the last three float64 would find other buckets than float32.
DEBERTA = (
    *((30, None), (512, 256), (128, 32), (12, 6), (256, 64)),
    *((129, 32), (65, 18), (513, 128)),
)
KINDS = ("press", "geometric")
RULES = (
    {"causal": False},
    {"causal": True},
    {"causal": True, "window": 3},
    {"causal": False, "window": 3},
    {"causal": True, "window": 2, "sinks": 2},
    {"causal": False, "window": 2, "sinks": 1},
    {"causal": True, "prefix": 4},
    {"causal": True, "prefix": 4, "window": 2, "sinks": 1},
)


def steps(first: int, found: list[int]) -> list[list[int]]:
    """[at, value] wherever a list of values for first, first + 1, ... changes."""
    changed = [n for n in range(len(found)) if n == 0 or found[n] != found[n - 1]]
    return [[first + n, found[n]] for n in changed]


def t5(settings: dict[str, Any]) -> dict[str, Any]:
    first, last = -3000, 3000
    buckets = posenc.T5Bias(1, **settings).bucket(torch.arange(first, last + 1)).tolist()
    named = {camel(name): value for name, value in settings.items()}
    return {"settings": named, "first": first, "last": last, "buckets": steps(first, buckets)}


def deberta(case: tuple[int, int | None]) -> dict[str, Any]:
    span, buckets = case
    encoding = posenc.DeBERTa(8, heads=1, span=span, buckets=buckets, projections="own")
    first, last = -span - 50, span + 50
    back = -torch.arange(first, last + 1).clamp(-span, span)
    rows = (encoding.bucket(back) + encoding.size).clamp(0, 2 * encoding.size - 1).tolist()
    settings = {"span": span, "buckets": buckets}
    return {"settings": settings, "first": first, "last": last, "rows": steps(first, rows)}


def slopes(heads: int, kind: Any) -> dict[str, Any]:
    expected = posenc.ALiBi(heads, slopes=kind).slope_values()
    return {"heads": heads, "kind": kind, "expected": expected}


def scaling_cases() -> list[tuple[int, float, Scaling, int | None]]:
    """Scalings as published checkpoints have them: turned dimensions, base, scaling, length."""
    long = [1.0 + i**2 / 10 for i in range(48)]
    longrope = posenc.LongRoPE([1.0 + i / 100 for i in range(48)], long, 4096, 32.0)
    dynamic = posenc.DynamicNTK(2.0, 2048)
    gpt_oss = posenc.YaRN(32.0, 4096, truncate=False)
    deepseek = posenc.YaRN(40.0, 4096, mscale=0.707, mscale_all_dim=1.0)
    return [
        (128, 10_000.0, posenc.Linear(8.0), None),
        (64, 10_000.0, posenc.NTK(4.0), None),
        *((128, 10_000.0, dynamic, length) for length in (None, 1000, 2049, 10_000)),
        (128, 1_000_000.0, posenc.YaRN(4.0, 32_768), None),
        (64, 150_000.0, gpt_oss, None),
        (64, 10_000.0, deepseek, None),
        (128, 10_000.0, posenc.YaRN(16.0, 4096, ramp="paper", attention_factor=1.0), None),
        *((96, 10_000.0, longrope, length) for length in (None, 4096, 4097)),
        (128, 500_000.0, posenc.Llama3(8.0, 1.0, 4.0, 8192), None),
        (64, 500_000.0, posenc.Llama3(16.0, 1.0, 1.0, 8192), None),
        (64, 10_000.0, posenc.Proportional(0.3), None),
    ]


def scaling(d: int, base: float, rule: Scaling, length: int | None) -> dict[str, Any]:
    rope = posenc.Rotary(d, base, scaling=rule)
    inverse = rope.frequencies(None if length is None else torch.tensor([length]))
    given = plain(rule)
    settings = {"d": d, "base": base, "length": length} | given
    name = settings.pop("name")
    row = numbers(inverse.reshape(-1))
    return {"name": name, "settings": settings, "inverse": row, "gain": rule.gain}


def axial(d: int, axes: int, place: list[int]) -> dict[str, Any]:
    at = Positions.build(ids=torch.tensor(place).view(1, 1, axes))
    (term,) = posenc.AxialRotary(d, axes).lower(at)
    return {"d": d, "base": 10_000.0, "place": place, "angles": numbers(term.q_angle.view(-1))}


def mrope(sections: tuple[int, ...], interleaved: bool) -> dict[str, Any]:
    place, d = [3, 11, 40], 2 * sum(sections)
    at = Positions.build(ids=torch.tensor(place).view(1, 1, 3))
    (term,) = posenc.MRoPE(d, sections, interleaved).lower(at)
    given = {"d": d, "base": 10_000.0, "sections": sections, "interleaved": interleaved}
    return given | {"place": place, "angles": numbers(term.q_angle.view(-1))}


def mask(rule: dict[str, Any]) -> dict[str, Any]:
    tokens = 7
    kinds = {"window": Window, "sinks": Sink, "prefix": Prefix}
    rules = [kind(rule[name]) for name, kind in kinds.items() if name in rule]
    seen = Positions.build(tokens, causal=rule["causal"]).visible(rules)
    seen = torch.ones(1, 1, 1, 1, dtype=torch.bool) if seen is None else seen
    rows = seen.expand(1, 1, tokens, tokens)[0, 0].int().tolist()
    return {"rule": rule, "tokens": tokens, "seen": ["".join(map(str, row)) for row in rows]}


def rounded() -> list[list[Any]]:
    """Numbers and what float32, bfloat16 and float16 make of them: ties, subnormals, overflow."""
    ties = [1 + n * 2.0**-k for k in (8, 9, 11, 12, 24, 25) for n in (1, 3, 5)]
    whole = [255, 256, 257, 258, 259, 2047, 2048, 2049, 2050, 2051, 65_503, 65_519, 65_520, 70_000]
    tiny = [2.0**-24, 2.0**-25, 3 * 2.0**-25, 2.0**-14, 6.1e-5, 6.09e-5, 1e-7, 5.9e-8, 1e-30]
    ends = [2.0**-126, 2.0**-127, 1e-40, 1e-45, 1e-50, 3.3e38, 3.39e38, 3.4028235e38, 3.5e38, 1e300]
    noise = (fixed(40).exp2() * fixed(40, start=40) * 1000).tolist()
    found = [0.0, *ties, *map(float, whole), *tiny, *ends, *noise]
    x = torch.tensor([sign * value for value in found for sign in (1, -1)], dtype=torch.float64)
    kinds = (torch.float32, torch.bfloat16, torch.float16)
    rows = torch.stack([x, *(x.to(kind).double() for kind in kinds)], dim=1).tolist()
    return [[exact(value) for value in row] for row in rows]


def exact(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
