"""Every configuration in which Triton's kernels are shipped, compiled for a GPU that is not there.

The tiles are those that `kernel_args.blocks_for` and its like give for a dtype and a width of
heads. `python -m tests.support.kernel_configurations` compiles them all and prints what they take.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from tests.support.fake_gpu import SHARED, Launch, fake_gpu, machine, ptx

HALVES = torch.bfloat16, torch.float16
DTYPES = torch.bfloat16, torch.float32, torch.float64
# The widest heads of each class of tiles.
WIDTHS = 64, 128, 256
GATHERS = "vectors", "gathered", "padded vectors"
WORKS = ("none", "slope", "table", "packed", "window", *GATHERS, "decode", "rotary")


@dataclass(frozen=True)
class Configuration:
    """What is computed: attention, forward and backward, with this bias; decoding; rotation.

    Vectors are of queries and values, as Shaw has them, gathered ones of queries and keys, as
    DeBERTa has them; padded ones are of all three, where several queries share a place.
    """

    work: str
    arch: int
    dtype: torch.dtype
    width: int

    def __str__(self) -> str:
        return f"{self.work} sm_{self.arch} {str(self.dtype).removeprefix('torch.')} {self.width}"


def shipped() -> Iterator[Configuration]:
    for work, arch, dtype, width in product(WORKS, SHARED, DTYPES, WIDTHS):
        # Of what gathers in 32 bits, no wider heads are taken.
        if work not in GATHERS or width <= 128 or dtype in HALVES:
            yield Configuration(work, arch, dtype, width)


def compiled(it: Configuration) -> list[Launch]:
    """The launches of this configuration, of few tokens."""
    with fake_gpu(it.arch) as gpu:
        if it.work == "rotary":
            _turn(it)
        elif it.work in GATHERS:
            _gather(it)
        else:
            _attend(it)
    return gpu.launches


def _turn(it: Configuration) -> None:
    from posenc.triton import rotary

    q, k = (torch.empty(1, heads, 512, it.width, dtype=it.dtype) for heads in (8, 2))
    exact = torch.promote_types(it.dtype, torch.float32)
    wave = torch.empty(1, 1, 512, it.width // 2, dtype=exact)
    for layout in ("half", "interleaved"):
        rotary.rotated((q, k), (wave, wave), (wave, wave), layout)


def _gather(it: Configuration) -> None:
    from posenc.triton import gathered
    from posenc.triton.gathered_args import Vectors
    from posenc.triton.kernel_args import Inputs

    shaw, padded = it.work != "gathered", it.work == "padded vectors"
    q = torch.empty(1, 4, 512, it.width, dtype=it.dtype)
    k = torch.empty(1, 4 if shaw else 2, 512, it.width, dtype=it.dtype)
    band, value = q.new_empty(1, 4, 512, 144), q.new_empty(1, 144, it.width) if shaw else None
    of_keys, repeated = (None, None) if it.work == "vectors" else (band, None)
    places = []
    if padded:
        places, repeated = _places(), torch.zeros(1).long()
    vectors = Vectors(band, 64, of_keys, 64, value, 64, repeated)
    rules = {"zero": 0, "scale": 0.1, "causal": shaw, "width": 0, "sinks": 0, "prefix": 0}
    biases = {"table": None, "past": None, "future": None}
    x = Inputs(q, k, k, places=places, plain=not padded, **biases, **rules)
    out, lse, masses = gathered._forward(*x, *vectors)
    gathered._backward(q, out, lse, masses, None, *x, *vectors)


def _places() -> list[torch.Tensor]:
    return [*[torch.zeros(1, 512).long()] * 6, torch.ones(1, 512, dtype=torch.bool)]


def _attend(it: Configuration) -> None:
    from posenc.triton import attention
    from posenc.triton.kernel_args import Inputs

    few = it.work == "decode"
    q = torch.empty(1, 4, 1 if few else 512, it.width, dtype=it.dtype)
    k = torch.empty(1, 2, 4096 if few else 512, it.width, dtype=it.dtype)
    exact = torch.promote_types(it.dtype, torch.float32)
    given: dict[str, Any] = {"table": None, "past": None, "sink": None}
    if it.work in ("table", "packed", "decode"):
        given["table"] = torch.empty(4, 129, dtype=exact)
    if it.work in ("slope", "decode"):
        given["past"] = torch.empty(4, dtype=exact)
    if it.work == "decode":
        given["sink"] = torch.empty(4, dtype=exact)
    width, sinks = (64, 4) if it.work == "window" else (0, 0)
    places = _places() if it.work == "packed" else []
    x = Inputs(
        q, k, k, future=given["past"], places=places, zero=128, scale=0.1, causal=True,
        width=width, sinks=sinks, prefix=0, plain=not places, **given,
    )  # fmt: skip
    out, lse = attention._forward(*x)
    if not few:
        attention._backward(q, out, lse, None, given["table"] is not None, *x)


def described(launch: Launch) -> dict[str, Any]:
    """What the machine code takes, and which instructions it has."""
    code, takes = ptx(launch.compiled), machine(launch.compiled)
    return {
        "kernel": launch.name,
        "registers": takes.registers,
        "shared": takes.shared,
        "stack": takes.stack,
        "wgmma": "wgmma.mma_async" in code,
        "mma": "mma.sync" in code,
        "copies ahead": "cp.async" in code,
    }


def main() -> None:
    import triton

    print(f"Triton {triton.__version__}")
    named = sys.argv[1:]
    for it in shipped():
        if not all(name in str(it).split() for name in named):
            continue
        try:
            for launch in compiled(it):
                told = ", ".join(f"{name} {value}" for name, value in described(launch).items())
                print(f"{it}: {told}", flush=True)
        except Exception as error:  # What one configuration cannot do shall not hide the next.
            print(f"{it}: {type(error).__name__} {str(error).splitlines()[:1]}", flush=True)


if __name__ == "__main__":
    main()
