"""How far apart two right implementations may be: what rounding to a dtype allows."""

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import (
    Computation,
    Kind,
    Results,
    in_dimensions,
    in_pairs,
)

# Each of two implementations may round cos, sin, both products and their sum once.
OPERATIONS = 4.0
# Sums over dimensions and keys: low dtypes are summed in float32 and rounded a few times, wider
# ones lose a little with every term. Measured: at most 1.1 and 6.9 at d = 16 to 128.
SUMS = {torch.bfloat16: 3.0, torch.float16: 3.0, torch.float32: 16.0, torch.float64: 16.0}


def rounding_of(
    ours: Results, kind: Kind, dtype: torch.dtype, at: Computation | None = None
) -> Results:
    """The largest difference that rounding to dtype allows, element by element.

    Angles may be rounded to float32 as well (float64 for float64): an error that grows with them.
    Raw tensors of `at` give the size of what was summed; without them results tell it roughly.
    """
    eps = torch.finfo(dtype).eps
    angle_eps = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    if kind == "turned":
        return _of_turned(ours, eps, angle_eps, at)
    result = ours[0].double()
    finite = result.masked_fill(result.isinf(), 0.0)
    if kind == "embedded":
        reach = 0 if at is None else at.positions.queries.position.double().abs().amax().item()
        return (OPERATIONS * (eps * (finite.abs() + 1) + angle_eps * reach),)
    size = None if at is None else _of_products(at)
    eps += angle_eps * (0.0 if at is None else _largest_angle(at))
    if kind == "scores":
        largest = finite.abs().amax(-1, keepdim=True) if size is None else size
        return (SUMS[dtype] * eps * (largest + finite.abs()) + 0 * finite,)
    if size is None or at is None or at.v is None:
        return (SUMS[dtype] * eps * (finite.abs() + finite.abs().amax(-2, keepdim=True)),)
    # A weight is wrong by as much, relatively, as its score is wrong absolutely.
    values = at.v.double().square().mean().sqrt()
    return (SUMS[dtype] * eps * values * (1 + size) + 0 * finite,)


def _of_turned(ours: Results, eps: float, angle_eps: float, at: Computation | None) -> Results:
    rotate = None if at is None else at.rotate
    allowed = []
    for index, x in enumerate(ours):
        x = x.double()
        size, angle = x.abs(), torch.zeros((), dtype=torch.float64, device=x.device)
        if rotate is not None:
            angles = rotate.q_angle if index == 0 or rotate.k_angle is None else rotate.k_angle
            width = x.shape[-1]
            size = size.maximum(in_dimensions(in_pairs(x, rotate).abs(), rotate, width))
            angle = in_dimensions(angles.abs(), rotate, width)
        elif at is None:
            # Whoever an element was turned with is not known, nor by how much.
            size = size + x.square().mean(-1, keepdim=True).sqrt()
            angle = torch.arange(x.shape[-2], device=x.device).double()[:, None]
        allowed.append(OPERATIONS * size * (eps + angle_eps * angle))
    return tuple(allowed)


def _largest_angle(at: Computation) -> float:
    rotate = at.rotate
    if rotate is None:
        return 0.0
    angles = (rotate.q_angle, rotate.k_angle)
    return max(angle.abs().max().item() for angle in angles if angle is not None)


def _of_products(at: Computation) -> Tensor:
    """How large scale * q . k is for vectors of these lengths in no special direction."""
    assert at.q is not None
    k = at.q if at.k is None else at.k
    q_norm = at.q.double().norm(dim=-1)
    k_norm = k.double().norm(dim=-1).amax((1, 2), keepdim=True)
    return (at.scale * 2 / at.q.shape[-1] ** 0.5 * q_norm * k_norm)[..., None]
