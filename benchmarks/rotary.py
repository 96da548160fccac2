"""Turning q and k against the memory floor: an in-place multiply, and a clone, of the same tensors.

    python -m benchmarks.rotary [--rounds 15] [--threads 2] [--json FILE]

Lowered terms are passed in, as a model does. Every case runs in turns in one process; figures are
medians of ratios, quartiles in brackets. A backward pass is given gradients that nobody else holds,
as attention's backward gives them.
"""

import argparse
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import posenc as pe
from benchmarks.timing import in_turns, ratio
from posenc.terms import Layout

SHAPES = {"large": (1, 32, 2048, 128), "in cache": (4, 8, 512, 64), "one token": (1, 32, 1, 128)}
AIMS = {
    "in place / multiply": {"large": 1.3, "in cache": 2.0},
    "out of place / clone": {"large": 1.2},
    "a pass of forward and backward / multiply": {"large": 1.4},
    "in place / transformers": {"one token": 0.5},
    "out of place / transformers": {"one token": 0.5},
}


class Source(torch.autograd.Function):
    """Tensors that stand for results of a layer; their gradients become spare memory."""

    @staticmethod
    def forward(ctx: Any, leaf: Tensor, x: list[Tensor], spare: list[Tensor]) -> tuple[Tensor, ...]:
        ctx.spare = spare
        return tuple(one.data for one in x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, None]:
        ctx.spare.extend(grads)
        return None, None, None


class Sink(torch.autograd.Function):
    """A loss whose gradients lie in spare memory already."""

    @staticmethod
    def forward(ctx: Any, spare: list[Tensor], *x: Tensor) -> Tensor:
        ctx.spare, ctx.count = spare, len(x)
        return x[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, *(ctx.spare.pop() for _ in range(ctx.count))


def both_passes(q: Tensor, k: Tensor, lowered: pe.Lowered) -> Callable[[], None]:
    leaf = torch.zeros((), requires_grad=True)
    spare = [torch.randn_like(q), torch.randn_like(k)]

    def run() -> None:
        x, y = Source.apply(leaf, [q, k], spare)
        Sink.apply(spare, *pe.rotate(x, y, lowered, inplace=True)).backward()

    return run


def cases_for(
    shape: tuple[int, ...], dtype: torch.dtype, layout: Layout
) -> dict[str, Callable[[], object]]:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k = torch.randn(2, *shape).to(dtype).unbind()
    q, k = q.clone(), k.clone()
    length, dim = shape[2:]
    lowered = pe.lower(pe.Rotary(dim, layout=layout), length)
    cos, sin = torch.randn(2, 1, length, dim).to(dtype).unbind()

    def multiply() -> None:
        q.mul_(1.0)
        k.mul_(1.0)

    return {
        "multiply": multiply,
        "clone": lambda: (q.clone(), k.clone()),
        "transformers": lambda: apply_rotary_pos_emb(q, k, cos, sin),
        "in place": lambda: pe.rotate(q, k, lowered, inplace=True),
        "out of place": lambda: pe.rotate(q, k, lowered),
        "both passes": both_passes(q, k, lowered),
    }


def figures(seconds: dict[str, list[float]]) -> dict[str, tuple[float, float, float]]:
    pairs = {
        "in place / multiply": (seconds["in place"], seconds["multiply"]),
        "out of place / clone": (seconds["out of place"], seconds["clone"]),
        "a pass of forward and backward / multiply": (
            [taken / 2 for taken in seconds["both passes"]],
            seconds["multiply"],
        ),
        "in place / transformers": (seconds["in place"], seconds["transformers"]),
        "out of place / transformers": (seconds["out of place"], seconds["transformers"]),
    }
    found = {name: ratio(*pair) for name, pair in pairs.items()}
    return {name: (each.low, each.median, each.high) for name, each in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rotary", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", help="large, in cache or one token")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    table: dict[str, dict[str, tuple[float, float, float]]] = {}
    layouts: tuple[Layout, ...] = ("half", "interleaved")
    kinds = itertools.product(SHAPES, (torch.float32, torch.bfloat16), layouts)
    for name, dtype, layout in kinds:
        if options.only not in (None, name):
            continue
        torch.manual_seed(0)
        cases = cases_for(SHAPES[name], dtype, layout)
        repeats = {"large": 1, "in cache": 20, "one token": 500}[name]
        if name == "large":
            # Its passes over temporaries would only push the others out of the caches.
            cases["transformers"] = lambda: None
        found = figures(in_turns(cases, rounds=options.rounds, repeats=repeats))
        row = f"{name} {SHAPES[name]}, {str(dtype).removeprefix('torch.')}, {layout}"
        table[row] = {}
        print(row)
        for what, (low, median, high) in found.items():
            if name in AIMS[what]:
                aim = AIMS[what][name]
                print(f"  {what:>44} {median:5.2f} ({low:.2f} to {high:.2f}), aim {aim}")
                table[row][what] = (low, median, high)
    if options.json:
        options.json.write_text(json.dumps(table, indent=2))


if __name__ == "__main__":
    main()
