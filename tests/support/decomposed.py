"""What tests of decompositions share."""

import torch
from torch import Tensor

from posenc.analysis.decomposition import Decomposition

PARTS = ["token_token", "token_position", "position_token", "position_position", "interaction"]


def close(actual: Tensor, expected: Tensor, why: str = "") -> None:
    """Within 1e-12, relative to values above 1."""
    error = (actual - expected).abs() / expected.abs().clamp(min=1.0)
    assert error.max() <= 1e-12, f"{why}: off by {error.max():.2g}"


def adds_up(found: Decomposition, expected: Tensor) -> None:
    total, hidden = found.total(), expected == -torch.inf
    assert torch.equal(found.visible, ~hidden)
    assert torch.equal(total == -torch.inf, hidden)
    close(total.masked_fill(hidden, 0.0), expected.masked_fill(hidden, 0.0))
    for part in found.parts().values():
        assert part.shape == expected.shape
        assert (part[hidden] == 0).all()
