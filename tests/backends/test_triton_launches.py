"""What Triton's kernels are launched with, and how often they are compiled: no GPU is needed."""

from typing import Any

import pytest
import torch

from tests.support.fake_gpu import MARKS, fake_gpu, words

pytestmark = MARKS


def turned(batch: int, length: int, dim: int = 16, layout: Any = "half", heads: int = 2) -> None:
    from posenc.triton import rotary

    q, k = (torch.empty(batch, n, length, dim, dtype=torch.bfloat16) for n in (heads, 1))
    wave = torch.empty(1, 1, length, dim // 2)
    rotary.rotated((q, k), (wave, wave), (wave, wave), layout)


def test_rotary_has_one_dimension_of_programs() -> None:
    """The others of a grid end at 65,535."""
    with fake_gpu() as gpu:
        turned(100_000, 1)
    (launch,) = gpu.launches
    assert launch.grid[1:] == (1, 1)
    # A program for eight heads of q or of k.
    assert launch.grid[0] == 200_000


def test_rotary_is_compiled_once_for_all_lengths_and_batches() -> None:
    from posenc.triton.rotary import _rotate_kernel

    with fake_gpu() as gpu:
        before = gpu.compiled(_rotate_kernel)
        for length in (513, 514, 528, 640, 1024, 1025):
            for batch in (1, 3, 16):
                turned(batch, length, dim=24)
    assert len(gpu.launches) == 18
    assert gpu.compiled(_rotate_kernel) - before == 1


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("dim", [80, 96, 128])
def test_rotary_moves_16_bytes_at_once(dim: int, layout: Any) -> None:
    """Of tables of 40 and 48 pairs too."""
    with fake_gpu() as gpu:
        turned(1, 512, dim, layout, heads=8)
    compiled = gpu.launches[0].compiled
    assert words(compiled, "ld") == words(compiled, "st") == {16}
