"""What every launch of a kernel asks of the machine."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def on_device(x: Tensor) -> AbstractContextManager[object]:
    """Triton launches on the current device, which need not be that of x."""
    if x.device.type != "cuda" or x.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(x.device)
