"""Triton kernels for NVIDIA GPUs; Triton's interpreter runs them on CPU tensors.

The modules here are imported when a tensor on a GPU asks for them: `import posenc` needs no Triton.
"""

from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec

import torch
from torch import Tensor

# Found once: the search through the folders of packages takes longer than a launch.
INSTALLED = find_spec("triton") is not None


def on_device(x: Tensor) -> AbstractContextManager[object]:
    """Triton launches on the current device, which need not be that of x."""
    if x.device.type != "cuda" or x.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(x.device)


def power_of_two(n: int) -> int:
    """The least power of two that is n or more: Triton's own takes longer than a stride does."""
    return 1 << (n - 1).bit_length()
