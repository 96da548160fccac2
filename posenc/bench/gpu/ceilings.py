"""What the card can do at best: copy, and multiply matrices."""

import statistics
from collections.abc import Iterator

import torch

from posenc.bench.gpu.clock import in_turns
from posenc.bench.gpu.row import Found, Place, Row


def rows(place: Place) -> Iterator[Row]:
    for megabytes in (1,) if place.tiny else (64, 512, 4096):
        yield Row(f"copy of {megabytes} MB", copying, (megabytes,))
    for size in (64,) if place.tiny else (4096, 8192):
        for dtype in ("bfloat16", "float32"):
            yield Row(f"product of {size} x {size}, {dtype}", multiplying, (size, dtype))


def copying(place: Place, megabytes: int) -> Found:
    """Bytes read and written in a second."""
    x = torch.randn(megabytes * 250_000, device=place.device)
    y = torch.empty_like(x)
    seconds = in_turns({"copy": lambda: y.copy_(x)}, place)["copy"]
    return {
        "seconds": seconds,
        "gigabytes_per_second": 2e-9 * x.nbytes / statistics.median(seconds),
    }


def multiplying(place: Place, size: int, dtype: str) -> Found:
    """Multiplications and additions in a second, of numbers that are drawn."""
    a, b = torch.randn(2, size, size, device=place.device).to(getattr(torch, dtype)).unbind()
    out = torch.empty_like(a)
    seconds = in_turns({"product": lambda: torch.mm(a, b, out=out)}, place)["product"]
    return {"seconds": seconds, "teraflops": 2e-12 * size**3 / statistics.median(seconds)}
