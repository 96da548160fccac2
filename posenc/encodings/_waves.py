"""What encodings share whose pairs turn by several coordinates at once."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from posenc.encoding import Pairs
from posenc.encodings._grid import Grid, reference_along
from posenc.encodings._rotary import Angles, geometric


def spectrum(heads: int, axes: int, pairs: int, base: float) -> Float[Tensor, "axes h r"]:
    """base**(-2j * axes / dim) along each axis, turned in each head by a random rotation of them.

    Of one axis it is RoPE's. Each row of a rotation is the direction in which one share of the
    pairs waves.
    """
    each = -(-pairs // axes)
    turned, signs = torch.linalg.qr(torch.randn(heads, axes, axes))
    # One axis has nowhere to turn.
    signs = signs.diagonal(dim1=-2, dim2=-1).sign() if axes > 1 else turned[..., 0]
    turned = turned * signs[:, None]
    waves = turned[..., None, :] * geometric(base, 2 * each, None).float()[:, None]
    return waves.flatten(1, 2).movedim(-1, 0)[..., :pairs].contiguous()


def angles_of(tokens: Tensor, frequency: Tensor) -> Angles:
    """Coordinates (1|b, t, axes) times frequencies (axes, 1|h, r), summed over axes, in radians."""
    return torch.einsum("bta,ahr->bhtr", tokens.double(), frequency.double())


def reference_angles_of(
    at: Pairs, frequency: Float64[Tensor, "axes #h r"], grid: Grid | None
) -> Float64[Tensor, "b #h tq tk r"]:
    """By how much a query turns against a key, axis by axis: for references."""
    total: Tensor | float = 0.0
    for axis, own in enumerate(frequency):
        q, k = (reference_along(x, axis, grid) for x in (at.q, at.k))
        back = q[:, None, :, None, None] - k[:, None, None, :, None]
        total = total + back * own[:, None, None]
    return torch.as_tensor(total)
