"""A decode step through a cache against torch.cat and SDPA without position.

    python -m benchmarks.decode [--keys 4096] [--heads 8] [--dim 64] [--rounds 15] [--json FILE]

One layer, one new token, `keys` tokens held before each round. Every case runs in turns in one
process; figures are medians of ratios, in brackets where the median lies 19 times of 20. Aim: at
most 1.2, but for raw, which turns all keys at each step. What torch.cat costs depends on whether
the memory it is given was used before, so that the same step costs several times more or less from
process to process; a Cache hardly copies.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import posenc as pe
from posenc.bench.timing import in_turns, ratio
from posenc.lowering import Lowerable

STEPS = 8


def plain(held: tuple[Tensor, Tensor], q: Tensor, new: tuple[Tensor, Tensor]) -> Callable:
    """STEPS steps of what a decoder without position does, from the same start each time."""

    def run() -> None:
        k, v = held
        for _ in range(STEPS):
            k, v = torch.cat((k, new[0]), dim=2), torch.cat((v, new[1]), dim=2)
            F.scaled_dot_product_attention(q, k, v)

    return run


def through(
    cache: pe.Cache,
    encoding: Lowerable,
    held: tuple[Tensor, Tensor],
    q: Tensor,
    new: tuple[Tensor, Tensor],
) -> Callable:
    """The same through a cache; one without a fixed size grows from call to call."""
    # The queries of the prompt are not measured: one stands in for all.
    pe.attend(q, *held, encoding, causal=True, cache=cache)

    def run() -> None:
        for _ in range(STEPS):
            pe.attend(q, *new, encoding, causal=True, cache=cache)
        if isinstance(cache, pe.StaticCache):
            cache.truncate(held[0].shape[2])

    return run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decode", description=__doc__)
    for name, default in (("keys", 4096), ("heads", 8), ("dim", 64), ("rounds", 15)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    shape = (1, options.heads, options.keys, options.dim)
    held = torch.randn(shape), torch.randn(shape)
    q, *new = torch.randn(3, 1, options.heads, 1, options.dim).unbind()
    rope, window = pe.Rotary(options.dim), options.keys // 4
    rolling = [rope, pe.SlidingWindow(window), pe.Sinks(4)]
    encodings: dict[str, tuple[Lowerable, pe.Cache]] = {
        "none, Cache": (None, pe.Cache()),
        "rotary, Cache": (rope, pe.Cache()),
        "rotary, Cache raw": (rope, pe.Cache("raw")),
        "alibi, Cache": (pe.ALiBi(options.heads), pe.Cache()),
        "t5, Cache": (pe.T5Bias(options.heads), pe.Cache()),
        "rotary, StaticCache": (rope, pe.StaticCache(options.keys + STEPS)),
        f"rotary, RollingCache({window}, 4)": (rolling, pe.RollingCache(window, 4)),
    }
    with torch.no_grad():
        cases = {"plain": plain(held, q, (new[0], new[1]))}
        for name, (encoding, cache) in encodings.items():
            cases[name] = through(cache, encoding, held, q, (new[0], new[1]))
        seconds = in_turns(cases, seconds=0.0, rounds=(options.rounds, options.rounds))
    step = sorted(seconds["plain"])[options.rounds // 2] / STEPS
    print(
        f"{shape} keys, {torch.get_num_threads()} threads; torch.cat and SDPA: {step * 1e3:.2f} ms"
    )
    table = {}
    for name in encodings:
        found = ratio(seconds[name], seconds["plain"])
        print(f"{name:>30} / torch.cat and SDPA {found}")
        table[name] = [found.low, found.median, found.high]
    if options.json:
        options.json.write_text(json.dumps(table, indent=2))


if __name__ == "__main__":
    main()
