"""Backend `blocked`, forward and backward, against causal SDPA without position, in turns.

    python -m benchmarks.blocked [--lengths 512 2048 8192] [--dtypes float32 bfloat16] [--rounds 7]

One bare attention, B 1, 8 heads x 64, causal; terms are lowered before, as a model does.
"""

import argparse
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

import posenc as pe
from benchmarks.timing import in_turns, ratio
from posenc import attend, lower
from posenc.lowering import Lowered

HEADS, DIM = 8, 64

ENCODINGS: dict[str, Callable[[], pe.Encoding | None]] = {
    "none": lambda: None,
    "alibi": lambda: pe.ALiBi(HEADS),
    "t5": lambda: pe.T5Bias(HEADS),
    "kerple": lambda: pe.KERPLE(HEADS),
    "sandwich": lambda: pe.Sandwich(HEADS),
    "shaw": lambda: pe.Shaw(DIM, clip=64),
    "shaw keys": lambda: pe.Shaw(DIM, clip=64, values=False),
    "transformer_xl": lambda: pe.TransformerXL(HEADS * DIM, HEADS),
    "deberta": lambda: pe.DeBERTa(HEADS * DIM, HEADS, span=512, projections="own"),
    "deberta logs": lambda: pe.DeBERTa(
        HEADS * DIM, HEADS, span=512, buckets=256, projections="own"
    ),
}


def leaves(lowered: Lowered) -> Iterator[Tensor]:
    """Tensors of the terms through which a gradient flows."""
    for term in lowered.terms:
        for value in vars(term).values():
            if isinstance(value, Tensor) and value.requires_grad:
                yield value


def case(name: str, length: int, dtype: torch.dtype, backend: str) -> Callable[[], None]:
    """One step, with gradients of q, k, v and of every table."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, HEADS, length, DIM).to(dtype).unbind()
    grad = torch.randn(1, HEADS, length, DIM).to(dtype)
    q, k, v = (x.clone().requires_grad_() for x in (q, k, v))
    encoding = ENCODINGS[name]()
    lowered = lower(encoding, length, causal=True)
    for term in lowered.terms:
        for field, value in vars(term).items():
            if isinstance(value, Tensor) and value.requires_grad:
                object.__setattr__(term, field, value.detach().requires_grad_())
    learned = [q, k, v, *leaves(lowered)]

    def run() -> None:
        if backend == "plain":
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            out = attend(q, k, v, lowered, backend=backend)
        torch.autograd.grad(out, learned, grad)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blocked", description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--encodings", nargs="+", default=list(ENCODINGS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for dtype_name in options.dtypes:
        dtype = getattr(torch, dtype_name)
        for length in options.lengths:
            cases = {"plain": case("none", length, dtype, "plain")}
            for name in options.encodings:
                cases[name] = case(name, length, dtype, "blocked")
            seconds = in_turns(cases, rounds=options.rounds, repeats=1 + 2048 // length)
            base = sorted(seconds["plain"])[options.rounds // 2]
            print(f"{dtype_name}, L = {length}: plain causal SDPA {base * 1e3:.1f} ms", flush=True)
            for name in options.encodings:
                print(f"{name:>16} {ratio(seconds[name], seconds['plain'])}", flush=True)


if __name__ == "__main__":
    main()
