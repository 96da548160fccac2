"""In which precision position is computed, whatever the model runs in."""

from contextlib import AbstractContextManager, nullcontext

import torch


def autocast_off(device: torch.device) -> AbstractContextManager[object]:
    """What makes scores and tables keeps at least float32 under autocast."""
    # Meta tensors have shapes only, and autocast does not know their device.
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)
