"""A backend of attention, forward and backward, against causal SDPA without position.

    python -m benchmarks.attention [--backend native] [--lengths 512 2048 8192] [--rounds 7]
                                   [--dtypes float32 bfloat16] [--encodings t5 shaw] [--memory]

One bare attention, B 1, 8 heads x 64, causal; terms are lowered before, as a model does. Times in
turns in one process; with --memory instead the peak of a fresh process for each case, above that
of one without position.
"""

import argparse
import resource
import subprocess
import sys

import torch

from benchmarks.blocked import ENCODINGS, case
from benchmarks.timing import in_turns, ratio


def peak(name: str, length: int, dtype: str, backend: str) -> float:
    """MiB that a process with one step of this case holds at most."""
    code = (
        "import sys; from benchmarks.attention import one_step; "
        f"one_step({name!r}, {length}, {dtype!r}, {backend!r})"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(run.stdout)


def one_step(name: str, length: int, dtype: str, backend: str) -> None:
    case(name, length, getattr(torch, dtype), backend)()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attention", description=__doc__)
    parser.add_argument("--backend", default="native")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--encodings", nargs="+", default=list(ENCODINGS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for dtype in options.dtypes:
        for length in options.lengths:
            if options.memory:
                base = peak("none", length, dtype, "plain")
                print(f"{dtype}, L = {length}: plain causal SDPA {base:.0f} MiB", flush=True)
                for name in options.encodings:
                    more = peak(name, length, dtype, options.backend) - base
                    print(f"{name:>16} {more:+.0f} MiB", flush=True)
                continue
            cases = {"plain": case("none", length, getattr(torch, dtype), "plain")}
            for name in options.encodings:
                cases[name] = case(name, length, getattr(torch, dtype), options.backend)
            seconds = in_turns(cases, rounds=options.rounds, repeats=1 + 2048 // length)
            base = sorted(seconds["plain"])[options.rounds // 2]
            print(f"{dtype}, L = {length}: plain causal SDPA {base * 1e3:.1f} ms", flush=True)
            for name in options.encodings:
                print(f"{name:>16} {ratio(seconds[name], seconds['plain'])}", flush=True)


if __name__ == "__main__":
    main()
