"""What every rotary encoding shares: frequencies, angles, and the slow product they define."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Keys, Queries, Scores
from posenc.errors import PositionsError, SettingError
from posenc.positions import Positions
from posenc.terms import Layout, Rotate


def check_layout(owner: str, layout: str) -> None:
    if layout not in ("half", "interleaved"):
        raise SettingError(f"{owner}(layout={layout!r}): layout is 'half' or 'interleaved'")


def geometric(
    base: float | Float64[Tensor, "*#bt 1"], turned: int, device: torch.device | None
) -> Float64[Tensor, "*#bt r"]:
    """Radians per token of each pair, base**(-2i/turned) for i = 0 .. turned/2 - 1."""
    pairs = torch.arange(0, turned, 2, dtype=torch.float64, device=device)
    return base ** (-pairs / turned)


def angle(
    coordinates: Tensor, frequencies: Float64[Tensor, "*#bht r"]
) -> Float64[Tensor, "#b #h t r"]:
    """Coordinates (t,) or (b, t) times frequencies (r,), (h, 1, r) or (b, 1, t, r), in radians."""
    at = coordinates.double()
    return at.view(-1, 1, at.shape[-1], 1) * frequencies


def angle_by_axis(
    coordinates: Tensor, axis_of: Sequence[int], frequencies: Float64[Tensor, "r"], reader: str
) -> Float64[Tensor, "b 1 t r"]:
    """Coordinates (b, t, axes), of each pair the one it reads, times frequencies, in radians."""
    axes = max(axis_of) + 1
    if coordinates.shape[-1] != axes:
        raise PositionsError(
            f"{reader} reads {axes} coordinates per token, but the positions have shape "
            f"{tuple(coordinates.shape)}: give (b, t, {axes})"
        )
    return coordinates.double()[:, None, :, axis_of] * frequencies


def rotation(positions: Positions, angle_of: Callable[[Tensor], Tensor], layout: Layout) -> Rotate:
    """One Rotate for queries and keys, whose angles are made once where positions are shared."""
    q, k = positions.queries.position, positions.keys.position
    k_angle = angle_of(k)
    q_angle = k_angle if q is k else angle_of(q)
    return Rotate(q_angle, k_angle, layout)


def turned_dot(
    q: Queries, k: Keys, angles: Float64[Tensor, "#b #h #tq #tk r"], layout: Layout
) -> Scores:
    """q . k after turning pair i of q against that of k by angles[..., i]: for references.

    A pair is a complex number, so that its part is Re(q * conj(k) * exp(i angle)); RoFormer,
    equation 12. Dimensions beyond the 2r turned ones enter as they are.
    """
    pairs = angles.shape[-1]
    total = torch.einsum("bhid,bhjd->bhij", q[..., 2 * pairs :], k[..., 2 * pairs :])
    for i in range(pairs):
        one, two = (i, i + pairs) if layout == "half" else (2 * i, 2 * i + 1)
        q_pair, k_pair = (torch.complex(x[..., one], x[..., two]) for x in (q, k))
        turn = torch.polar(torch.ones_like(angles[..., i]), angles[..., i])
        total = total + (q_pair[..., :, None] * k_pair.conj()[..., None, :] * turn).real
    return total
