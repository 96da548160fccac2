"""What a call runs in: the dtype of its arithmetic, autocast, threads, what watches its tensors."""

import os
import sys
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

# OpenMP's threads are those of the process that started them.
_PROCESS = os.getpid()


def arithmetic(*tensors: Tensor) -> torch.dtype:
    """float64 if any tensor is, else float32."""
    return torch.float64 if torch.float64 in {t.dtype for t in tensors} else torch.float32


def autocast_off(device: torch.device) -> AbstractContextManager[object]:
    """What makes scores and tables keep at least float32 under autocast."""
    # Meta tensors have shapes only, and autocast does not know their device.
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)


def threads() -> int:
    """How many threads a kernel of ours may use.

    OpenMP's do not survive a fork, and a child that waits for them hangs: it has one.
    """
    return torch.get_num_threads() if os.getpid() == _PROCESS else 1


def forward_mode() -> bool:
    """Whether gradients are computed forward, beside the values."""
    return forward_ad._current_level >= 0


def transformed() -> bool:
    """Whether torch.func or forward-mode differentiation wraps the tensors of this call."""
    return torch._C._functorch.peek_interpreter_stack() is not None or forward_mode()


def exporting_to_onnx() -> bool:
    """Whether a graph is made for ONNX."""
    # Nobody exports without torch.onnx, which takes an eager call's first use long to import.
    loaded = torch.compiler.is_compiling() or "torch.onnx" in sys.modules
    return loaded and torch.onnx.is_in_onnx_export()


def plain(*tensors: Tensor) -> bool:
    """Whether these are tensors with memory, watched by nothing but autograd."""
    for tensor in tensors:
        if type(tensor) not in (Tensor, Parameter):
            return False
    return (
        torch._C._len_torch_dispatch_stack() == 0
        and not transformed()
        and not torch.jit.is_tracing()
    )
