"""What a figure shows: numbers and words, read back out of it."""

import matplotlib
import numpy as np
import torch
from torch import Tensor

import posenc as pe

FIRST = {name: next(iter(kind.examples())) for name, kind in pe.encodings().items()}


def image_of(axes: object) -> Tensor:
    return torch.from_numpy(np.ma.filled(axes.images[0].get_array(), np.nan))


def line_of(axes: object, index: int = 0) -> Tensor:
    return torch.from_numpy(np.asarray(axes.lines[index].get_ydata(), dtype=float))


def exact(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True, check_dtype=False)


def texts(figure: object) -> list[str]:
    """Everything that a figure says."""
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]
