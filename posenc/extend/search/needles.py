"""What guides the search: whether a model still tells what stood at the beginning of a long text.

The answer's tokens alone are scored (needle-driven perplexity), for most words of a text can be
told from those just before them. Source: arXiv:2502.20082, section 3.2; the sentences are those of
`posenc extend`'s passkeys, and its text stands in for the paper's books.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch

from posenc.extend.forward import score
from posenc.extend.material import Hidden, Material


def needles(material: Material, length: int, samples: int, seed: int) -> list[Hidden]:
    """Texts of `length` tokens that begin with a number and end with it, asked for."""
    return [material.passkey(length, 0.0, f"search/{seed}/{index}") for index in range(samples)]


def needle_loss(model: Any, hidden: Sequence[Hidden]) -> float:
    """The mean of -ln p of all tokens of the answers; infinite where the model breaks down."""
    losses = torch.cat([score(model, needle.ids, needle.first).loss for needle in hidden])
    mean = float(losses.double().mean())
    return mean if math.isfinite(mean) else math.inf
