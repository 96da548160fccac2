"""What runs: plain tensors with memory, or something that stands in for them."""

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter


def forward_mode() -> bool:
    """Whether gradients are computed forward, beside the values."""
    return forward_ad._current_level >= 0


def transformed() -> bool:
    """Whether torch.func or forward-mode differentiation wraps the tensors of this call."""
    return torch._C._functorch.peek_interpreter_stack() is not None or forward_mode()


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
