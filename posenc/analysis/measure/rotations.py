"""How fast pairs turn, how far they get in training, and which angles are new beyond it."""

import math

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from posenc.analysis.probe_context import device_of, lowered_alone
from posenc.encoding import Encoding
from posenc.encodings.sinusoidal import Sinusoidal
from posenc.equation import mask_rules
from posenc.errors import SettingError, UnsupportedError
from posenc.lowering import Lowered, embeds_only
from posenc.positions import Positions
from posenc.terms import Rotate, Zones


def frequencies(encoding: Encoding, length: int = 2) -> Float64[Tensor, "#h r"]:
    """Radians per token of every pair, one row for all heads or one for each.

    Of a scaled rotary they are the scaled ones, for an input of `length` tokens where the scaling
    reads it. Of two zones they are those near by; of several axes, a step on all of them.

    Raises UnsupportedError for an encoding without rotations, but for Sinusoidal.
    """
    if isinstance(encoding, Sinusoidal):
        return encoding.frequencies()[None]
    ids = torch.tensor([0, 1], device=device_of(encoding))
    if encoding.axes > 1:
        ids = ids[None, :, None].expand(-1, -1, encoding.axes)
    lowered = _rotated(encoding, Positions.build(ids=ids, extent=max(length, 2), causal=True))
    for term in lowered.terms:
        rotate = term.near if isinstance(term, Zones) else term
        if isinstance(rotate, Rotate) and rotate.k_angle is not None:
            return (rotate.k_angle[0, :, 1] - rotate.k_angle[0, :, 0]).detach()
    raise _without_rotation(encoding, "frequencies")


def wavelengths(frequencies: Float[Tensor, "*batch r"]) -> Float64[Tensor, "*batch r"]:
    """Tokens per turn of every pair, 2 pi / w; inf for a pair that does not turn.

    Source: Peng et al. 2023, arXiv:2309.00071, the wavelength lambda.
    """
    return 2 * math.pi / frequencies.detach().double()


def turns(frequencies: Float[Tensor, "*batch r"], length: int) -> Float64[Tensor, "*batch r"]:
    """Turns that every pair completes within `length` tokens, w L / (2 pi).

    A pair below 1 has not shown all its angles in training on L tokens; longer inputs bring new
    ones. Raises SettingError for length < 1.

    Source: Peng et al. 2023, arXiv:2309.00071, "NTK-by-parts": r = L / lambda.
    """
    if length < 1:
        raise SettingError(f"turns(length={length}): at least one token is needed")
    return frequencies.detach().double() * length / (2 * math.pi)


def largest_angles(encoding: Encoding, length: int) -> Float64[Tensor, "#h r"]:
    """The largest relative angle of every pair between two tokens that see each other.

    In radians, whole turns counted. Of plain RoPE it is w (L - 1); zones and windows, as the last
    token of a causal input sees them, keep it smaller. Raises UnsupportedError for an encoding
    that turns no queries and keys.
    """
    at = Positions.build(1, length, causal=True, device=device_of(encoding))
    lowered = _rotated(encoding, at)
    rules = mask_rules(lowered.terms)
    visible = at.visible(rules)
    for term in lowered.terms:
        if isinstance(term, Rotate) and term.k_angle is not None and not rules:
            # On a grid the last token need not be the one farthest from another.
            return (term.k_angle.amax(dim=-2) - term.k_angle.amin(dim=-2))[0].detach()
        if isinstance(term, Zones):
            near = -at.order_distance()[..., 0, :, None] < term.width
            back = torch.where(near, _back(term.near), _back(term.far))
        elif isinstance(term, Rotate):
            back = _back(term)
        else:
            continue
        if visible is not None:
            back = back.where(visible[..., 0, :, None], 0.0)
        return back.amax(dim=-2)[0].detach()
    raise _without_rotation(encoding, "largest_angles")


def _back(term: Rotate) -> Float64[Tensor, "1 #h t r"]:
    assert term.k_angle is not None
    return (term.q_angle - term.k_angle).abs()


def _rotated(encoding: Encoding, at: Positions) -> Lowered:
    if embeds_only(encoding):
        raise _without_rotation(encoding, "a measure of rotations")
    return lowered_alone(encoding, at)


def _without_rotation(encoding: Encoding, called: str) -> UnsupportedError:
    return UnsupportedError(
        f"{called}: {encoding!r} turns no queries and keys; give a rotary encoding"
    )
