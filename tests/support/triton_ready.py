"""Where Triton's kernels run: on a GPU as they are, else in the interpreter.

Without a GPU they need TRITON_INTERPRET=1 before Triton is imported: `make long` runs the marker
`triton` on its own for that.
"""

import os
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

GPU = torch.cuda.is_available()
READY = find_spec("triton") is not None and (GPU or os.environ.get("TRITON_INTERPRET") == "1")
DEVICE = "cuda" if GPU else "cpu"
# Products of float64 are no part of every GPU's matrix units.
EXACT = torch.float32 if GPU else torch.float64
HOW = "needs Triton, and a GPU or TRITON_INTERPRET=1 (pip install -e '.[triton]')"
MARKS = [pytest.mark.triton, pytest.mark.skipif(not READY, reason=HOW)]


def draw(*shape: int, dtype: torch.dtype = EXACT, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(DEVICE, dtype)


def close(actual: Tensor, expected: Tensor, dtype: torch.dtype = EXACT) -> None:
    bound = {torch.float64: 1e-11, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
    assert actual.isfinite().all()
    expected = expected.to(actual.dtype)
    torch.testing.assert_close(actual, expected, atol=bound[dtype], rtol=bound[dtype])
