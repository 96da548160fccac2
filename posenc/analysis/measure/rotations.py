"""How fast pairs turn, how far they turn two tokens apart, and which angles training reaches."""

import math

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from posenc.analysis.probe_context import device_of, lowered_alone
from posenc.encoding import Encoding
from posenc.encodings.sinusoidal import Sinusoidal
from posenc.equation import chunks_ahead, mask_rules
from posenc.errors import SettingError, UnsupportedError
from posenc.lowering import embeds_only
from posenc.positions import Positions
from posenc.terms import ChunkZones, Polar, Rotate, Term, Zones

Turning = Rotate | Zones | ChunkZones | Polar


def frequencies(encoding: Encoding, length: int = 2) -> Float64[Tensor, "#h r"]:
    """Radians per token of every pair, one row for all heads or one for each.

    Of a scaled rotary they are the scaled ones, for an input of `length` tokens where the scaling
    reads it. Of two zones they are those near by; of several axes, a step on all of them.

        frequencies(pe.Rotary(4))   # [[1.0, 0.01]]

    Raises UnsupportedError for an encoding without rotations, but for Sinusoidal.
    """
    if isinstance(encoding, Sinusoidal):
        return encoding.frequencies()[None]
    ids = torch.tensor([0, 1], device=device_of(encoding))
    if encoding.axes > 1:
        ids = ids[None, :, None].expand(-1, -1, encoding.axes)
    positions = Positions.build(ids=ids, extent=max(length, 2), causal=True)
    term, _ = _rotation(encoding, positions, "frequencies")
    if isinstance(term, (Zones, ChunkZones)):
        term = term.near if isinstance(term, Zones) else term.same
    angle = key_angle(term)[0]
    return angle[:, 1] - angle[:, 0]


def wavelengths(frequencies: Float[Tensor, "*batch r"]) -> Float64[Tensor, "*batch r"]:
    """Tokens per turn of every pair, 2 pi / |w|; inf for a pair that does not turn.

        wavelengths(frequencies(pe.Rotary(4)))   # [[6.28, 628.3]]

    Source: Peng et al. 2023, arXiv:2309.00071, the wavelength lambda.
    """
    return 2 * math.pi / frequencies.detach().double().abs()


def turns(frequencies: Float[Tensor, "*batch r"], length: int) -> Float64[Tensor, "*batch r"]:
    """Turns that every pair completes within `length` tokens, |w| L / (2 pi), either way round.

    A pair below 1 has not shown all its angles in training on L tokens; longer inputs bring new
    ones. Raises SettingError for length < 1.

        (turns(frequencies(pe.Rotary(64)), 4096) < 1).sum()   # pairs that training leaves short

    Source: Peng et al. 2023, arXiv:2309.00071, "NTK-by-parts": r = L / lambda.
    """
    if length < 1:
        raise SettingError(f"turns(length={length}): at least one token is needed")
    return frequencies.detach().double().abs() * length / (2 * math.pi)


def largest_angles(encoding: Encoding, length: int) -> Float64[Tensor, "#h r"]:
    """The largest relative angle of every pair between two tokens that see each other.

    In radians, whole turns counted. Of plain RoPE it is w (L - 1); zones and windows, as the last
    token of a causal input sees them, keep it smaller. Raises UnsupportedError for an encoding
    that turns no queries and keys.

        largest_angles(pe.Rotary(4), 101)   # [[100.0, 1.0]]
    """
    positions = Positions.build(1, length, causal=True, device=device_of(encoding))
    term, terms = _rotation(encoding, positions, "largest_angles")
    rules = mask_rules(terms)
    if isinstance(term, Rotate) and not rules:
        # On a grid the last token need not be the one farthest from another.
        angle = key_angle(term)
        return (angle.amax(dim=-2) - angle.amin(dim=-2))[0]
    back, visible = between(term, positions)[0].abs(), positions.visible(rules)
    if visible is not None:
        back = back.where(visible[..., 0, :, None], 0.0)
    return back.amax(dim=-2)[0]


def relative_angles(
    encoding: Encoding, length: int, *, wrapped: bool = False
) -> Float64[Tensor, "#h t r"]:
    """By how many radians each pair turns a query against a key n tokens back, row n.

    Whole turns count, or with `wrapped` are taken away, which leaves -pi .. pi. The query is the
    last of `length` causal tokens, whose zones and length it sees. Of Sinusoidal it is the angle
    between two positions. Raises UnsupportedError for an encoding that does not turn.

        relative_angles(pe.Rotary(4), 3)   # [[[0.0, 0.0], [1.0, 0.01], [2.0, 0.02]]]
    """
    if isinstance(encoding, Sinusoidal):
        back = torch.arange(length)[None, :, None] * encoding.frequencies()
    else:
        positions = Positions.build(1, length, causal=True, device=device_of(encoding))
        back = between(_rotation(encoding, positions, "relative_angles")[0], positions)[0][0].flip(
            -2
        )
    return (back + math.pi) % (2 * math.pi) - math.pi if wrapped else back


def pair_cosines(encoding: Encoding, length: int) -> Float64[Tensor, "#h t r"]:
    """cos of `relative_angles`: what every pair makes of equal tokens n apart, row n.

    Of sinusoids their sum over pairs is the inner product (Vaswani et al. 2017, arXiv:1706.03762,
    section 3.5), of plain RoPE half the score of q = k = ones. Raises UnsupportedError for an
    encoding that does not turn.

        pair_cosines(pe.Rotary(64), 128).sum(-1)   # the curve of RoFormer's decay
    """
    return relative_angles(encoding, length).cos()


def key_angle(term: Rotate | Polar) -> Float64[Tensor, "#b #h t r"]:
    """By what the keys are rotated; terms made for the whole input always tell."""
    assert term.k_angle is not None
    return term.k_angle.detach()


def between(term: Turning, positions: Positions) -> tuple[Tensor, Tensor]:
    """Angles between the only query and every key, and the factors beside them: (1, #h, tk, r)."""
    if isinstance(term, Polar):
        term = term.rotation
    if isinstance(term, Zones):
        near = -positions.order_distance()[..., 0, :, None] < term.width
        zones = zip(between(term.near, positions), between(term.far, positions), strict=True)
        angle, size = (torch.where(near, *both) for both in zones)
        return angle, size
    if isinstance(term, ChunkZones):
        ahead, keys = chunks_ahead(positions, term.width)[..., 0, :, None], key_angle(term.same)
        same, one, more = (
            turn.q_angle.detach() - keys for turn in (term.same, term.next, term.beyond)
        )
        angle = torch.where(ahead < 1, same, torch.where(ahead < 2, one, more))
        return angle, torch.full_like(angle, term.same.gain**2)
    angle = term.q_angle.detach() - key_angle(term)
    size = torch.full_like(angle, term.gain**2)
    if term.q_log_scale is not None and term.k_log_scale is not None:
        size = size * (term.q_log_scale + term.k_log_scale).detach().exp()
    return angle, size


def _rotation(
    encoding: Encoding, positions: Positions, called: str
) -> tuple[Turning, tuple[Term, ...]]:
    """The term by which queries and keys turn, and all terms."""
    terms = () if embeds_only(encoding) else lowered_alone(encoding, positions).terms
    for term in terms:
        if isinstance(term, Turning):
            return term, terms
    raise UnsupportedError(
        f"{called}({encoding!r}): it turns no pairs of queries and keys by angles; give a rotary "
        "encoding that does"
    )
