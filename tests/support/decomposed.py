"""What tests of decompositions share."""

from torch import Tensor

PARTS = ["token_token", "token_position", "position_token", "position_position", "interaction"]


def close(actual: Tensor, expected: Tensor, why: str = "") -> None:
    """Within 1e-12, relative to values above 1."""
    error = (actual - expected).abs() / expected.abs().clamp(min=1.0)
    assert error.max() <= 1e-12, f"{why}: off by {error.max():.2g}"
