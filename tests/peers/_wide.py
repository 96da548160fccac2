"""Lifting what a peer fixes to low precision, so that float64 is all that rounds."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor


@contextmanager
def in_float64() -> Iterator[None]:
    """Whatever the peer asks for in float32 or bfloat16 meanwhile is made in float64."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with (
            mock.patch.object(torch, "float32", torch.float64),
            mock.patch.object(torch, "float", torch.float64),
            mock.patch.object(Tensor, "float", Tensor.double),
            mock.patch.object(Tensor, "bfloat16", Tensor.double),
        ):
            yield
    finally:
        torch.set_default_dtype(default)
