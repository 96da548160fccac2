"""What the Triton kernels reach on an NVIDIA GPU: python -m posenc.bench.gpu [--out FILE]

Every figure is a ratio to what bounds it, taken in turns: a copy of the same bytes for rotary and
decoding, the same kernel without a bias for attention. Times are CUDA events around one call with
the L2 cache flushed before it; errors are against float64.
"""

import argparse
import json
import platform
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import posenc as pe
from posenc import terms as t
from posenc.lowering import Lowerable

ROUNDS = 30
DEVICE = "cuda"
ROTARY, PREFILL, CACHE = 16384, (2048, 8192, 16384), (4096, 32768)
Calls = dict[str, Callable[[], object]]
Row = dict[str, str | float | None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    out = parser.parse_args().out
    if not torch.cuda.is_available():
        print("posenc.bench.gpu: torch sees no NVIDIA GPU here, so nothing was measured")
        return
    results = {
        "machine": {
            "host": platform.node(),
            "gpu": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
        },
        "rotary": rotary(),
        "attention": attention(),
        "decoding": decoding(),
    }
    text = json.dumps(results, indent=2)
    print(text)
    if out is not None:
        out.write_text(text + "\n")


def rotary() -> list[Row]:
    """q and k turned, as a share of a copy of the same tensors, forward and both ways."""
    rows: list[Row] = []
    for layout in ("half", "interleaved"):
        for dtype in (torch.bfloat16, torch.float32):
            q, k = drawn(1, 32, ROTARY, 128, dtype), drawn(1, 8, ROTARY, 128, dtype)
            lowered = pe.lower(pe.Rotary(128, layout=layout), ROTARY, device=q.device)
            both_q, both_k = (x.clone().requires_grad_() for x in (q, k))
            grads = torch.randn_like(q), torch.randn_like(k)
            calls: Calls = {
                "copy": lambda q=q, k=k: (q.clone(), k.clone()),
                "forward": lambda q=q, k=k, at=lowered: pe.rotate(q, k, at),
                "both": lambda q=both_q, k=both_k, at=lowered, g=grads: torch.autograd.grad(
                    pe.rotate(q, k, at), (q, k), g
                ),
            }
            ms = in_turns(calls)
            exact, _ = pe.rotate(q.double(), k.double(), lowered)
            moved = 2 * (q.nbytes + k.nbytes)
            rows.append(
                {
                    "layout": layout,
                    "dtype": str(dtype),
                    "share_of_copy_forward": ratio(ms["copy"], ms["forward"]),
                    "share_of_copy_forward_and_backward": 2 * ratio(ms["copy"], ms["both"]),
                    "gigabytes_per_second": moved / statistics.median(ms["forward"]) / 1e6,
                    "error": error(pe.rotate(q, k, lowered)[0], exact),
                }
            )
    return rows


def attention() -> list[Row]:
    """Prefill and training with a bias, as a share of the same kernel, and of SDPA, without."""
    rows: list[Row] = []
    for length in PREFILL:
        q, k, v = (drawn(1, 32, length, 128, torch.bfloat16).requires_grad_() for _ in range(3))
        values = torch.randn(32, 129, device=DEVICE, requires_grad=True)
        terms: dict[str, Lowerable] = {
            "none": None,
            "alibi": pe.ALiBi(32),
            "t5": t.DistanceTable(values, 128, saturates=True),
            "whole table": t.DistanceTable(
                torch.randn(32, length, device=DEVICE, requires_grad=True), length - 1
            ),
        }
        positions = pe.Positions.build(length, causal=True, device=q.device)
        at = {name: pe.lower(term, positions) for name, term in terms.items()}
        grad = torch.randn_like(q)

        def forward(name: str, backend: str = "triton", q=q, k=k, v=v, at=at) -> Tensor:
            with torch.no_grad():
                return pe.attend(q, k, v, at[name], backend=backend)

        def both(name: str, backend: str = "triton", q=q, k=k, v=v, at=at, grad=grad) -> object:
            learned = [x.values for x in at[name].terms if isinstance(x, t.DistanceTable)]
            out = pe.attend(q, k, v, at[name], backend=backend)
            return torch.autograd.grad(out, (q, k, v, *learned), grad)

        calls: Calls = {f"forward {n}": lambda n=n, f=forward: f(n) for n in terms}
        calls |= {f"both {n}": lambda n=n, f=both: f(n) for n in terms}
        calls["forward sdpa"] = lambda f=forward: f("none", "sdpa")
        calls["both sdpa"] = lambda f=both: f("none", "sdpa")
        ms = in_turns(calls)
        for name in terms:
            exact = None
            if length == PREFILL[0]:
                wide = [x.detach().double()[:, :2] for x in (q, k, v)]
                few = first_heads(terms[name], 2)
                exact = pe.attend(wide[0], wide[1], wide[2], few, positions=positions)
            rows.append(
                {
                    "length": length,
                    "bias": name,
                    "forward_of_no_bias": ratio(ms["forward none"], ms[f"forward {name}"]),
                    "both_of_no_bias": ratio(ms["both none"], ms[f"both {name}"]),
                    "forward_of_sdpa": ratio(ms["forward sdpa"], ms[f"forward {name}"]),
                    "both_of_sdpa": ratio(ms["both sdpa"], ms[f"both {name}"]),
                    "milliseconds_forward": statistics.median(ms[f"forward {name}"]),
                    "milliseconds_both": statistics.median(ms[f"both {name}"]),
                    "error": None if exact is None else error(forward(name)[:, :2], exact),
                }
            )
    return rows


def first_heads(term: Lowerable, heads: int) -> Lowerable:
    """The same bias for the first heads alone, so that float64 fits."""
    if isinstance(term, t.DistanceTable):
        return t.DistanceTable(term.values[:heads].double(), term.zero, saturates=term.saturates)
    if isinstance(term, pe.ALiBi):
        return t.Slope(torch.tensor(term.slope_values()[:heads], device=DEVICE).double())
    return term


def decoding() -> list[Row]:
    """One query for each of 32 rows against a cache of 8 key heads, as a share of its copy."""
    rows: list[Row] = []
    for length in CACHE:
        q = drawn(32, 32, 1, 128, torch.bfloat16)
        k, v = (drawn(32, 8, length, 128, torch.bfloat16) for _ in range(2))
        positions = pe.Positions.build(1, length, causal=True, device=q.device)
        at = pe.lower(pe.ALiBi(32), positions)
        space = torch.empty_like(k)

        def step(backend: str, q=q, k=k, v=v, at=at) -> Tensor:
            with torch.no_grad():
                return pe.attend(q, k, v, at, backend=backend)

        # The copy reads and writes as much as attention reads: half of k and v, twice.
        calls: Calls = {"copy": lambda k=k, space=space: space.copy_(k)}
        for name in ("auto", "triton", "sdpa"):
            calls[name] = lambda name=name, step=step: step(name)
        ms = in_turns(calls)
        for name in ("auto", "triton", "sdpa"):
            seconds = statistics.median(ms[name]) / 1e3
            rows.append(
                {
                    "length": length,
                    "backend": name,
                    "share_of_copy": ratio(ms["copy"], ms[name]),
                    "gigabytes_per_second": (k.nbytes + v.nbytes) / seconds / 1e9,
                }
            )
    return rows


def drawn(batch: int, heads: int, length: int, dim: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(batch, heads, length, dim, device=DEVICE, dtype=dtype)


def error(actual: Tensor, exact: Tensor) -> float:
    return float((actual.detach().double() - exact.detach()).abs().max())


def ratio(base: list[float], case: list[float]) -> float:
    """The median over rounds of time(base) / time(case)."""
    return statistics.median(b / c for b, c in zip(base, case, strict=True))


def in_turns(calls: Calls) -> dict[str, list[float]]:
    """Milliseconds of each call in each round, with the L2 cache overwritten before every one."""
    flush = torch.empty(1 << 28, dtype=torch.int8, device=DEVICE)
    for call in calls.values():
        for _ in range(3):
            call()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            flush.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            taken[name].append(start.elapsed_time(end))
    return taken


if __name__ == "__main__":
    main()
