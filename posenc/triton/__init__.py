"""Triton kernels for NVIDIA GPUs; Triton's interpreter runs them on CPU tensors.

The modules here are imported when a tensor on a GPU asks for them: `import posenc` needs no Triton.
"""

from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor


def is_installed() -> bool:
    """Whether there is a Triton of 3.4 or later, which has the knobs that launches read.

    To import it takes its time, so that its folder is asked.
    """
    spec = find_spec("triton")
    folders = [] if spec is None else spec.submodule_search_locations or []
    return any(Path(folder, "knobs.py").exists() for folder in folders)


# Found once: the search through the folders of packages takes longer than a launch.
INSTALLED = is_installed()


def on_device(x: Tensor) -> AbstractContextManager[object]:
    """Triton launches on the current device, which need not be that of x."""
    if x.device.type != "cuda" or x.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(x.device)


def in_32_bits(x: Tensor) -> Tensor:
    """x, or a copy where steps along its last dimension leave the 32 bits that kernels count in."""
    return x if x.shape[-1] * x.stride(-1) < 2**31 else x.contiguous()


def power_of_two(n: int) -> int:
    """The least power of two that is n or more: Triton's own takes longer than a stride does."""
    return 1 << (n - 1).bit_length()
