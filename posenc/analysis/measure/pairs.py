"""Pairs of dimensions: where they put a position, and how far they turn two tokens apart."""

import math

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.analysis.measure.vectors import position_table
from posenc.analysis.probe_context import device_of, lowered_alone
from posenc.encoding import Encoding
from posenc.encodings.sinusoidal import Sinusoidal
from posenc.errors import UnsupportedError
from posenc.lowering import embeds_only
from posenc.positions import Positions
from posenc.terms import Rotate, Zones


def pair_points(encoding: Encoding, length: int) -> Float64[Tensor, "#h t r 2"]:
    """The two numbers (cosine, sine) of every pair at positions 0 .. length - 1.

    Of Sinusoidal a pair is a sine and its cosine, wherever its layout puts them; of any other
    absolute encoding columns (2i + 1, 2i); of a rotary one, where a key of (1, 0) is turned to,
    for all heads alike or for each. Raises UnsupportedError where a position has no vector, or one
    of a single number.
    """
    if embeds_only(encoding):
        table = position_table(encoding, length)
        pairs = table.shape[1] // 2
        sine = torch.arange(pairs, device=table.device)
        cosine = sine + (table.shape[1] + 1) // 2
        if not isinstance(encoding, Sinusoidal) or encoding.layout == "interleaved":
            sine, cosine = 2 * sine, 2 * sine + 1
        elif encoding.denominator == "tensor2tensor":
            cosine = sine + pairs
        if not pairs:
            raise UnsupportedError(f"pair_points({encoding!r}): a position is one number here")
        return torch.stack((table[:, cosine], table[:, sine]), dim=-1)[None]
    at = Positions.build(length, causal=True, device=device_of(encoding))
    for term in lowered_alone(encoding, at).terms:
        if isinstance(term, Rotate) and term.k_angle is not None:
            angle = term.k_angle.detach()[0]
            size = torch.full_like(angle, term.gain)
            if term.k_log_scale is not None:
                size = size * term.k_log_scale.detach()[0].exp()
            points = torch.stack((angle.cos() * size, angle.sin() * size), dim=-1)
            return points.expand(-1, length, -1, -1)
    raise UnsupportedError(
        f"pair_points({encoding!r}): it gives no vector to a position of its own"
    )


def relative_angles(
    encoding: Encoding, length: int, *, wrapped: bool = False
) -> Float64[Tensor, "#h t r"]:
    """By how many radians each pair turns a query against a key n tokens back, row n.

    Whole turns count, or with `wrapped` are taken away, which leaves -pi .. pi. The query is the
    last of `length` causal tokens, whose zones and length it sees. Of Sinusoidal it is the angle
    between two positions. Raises UnsupportedError for an encoding that does not turn.
    """
    back = _relative(encoding, length)
    return (back + math.pi) % (2 * math.pi) - math.pi if wrapped else back


def pair_cosines(encoding: Encoding, length: int) -> Float64[Tensor, "#h t r"]:
    """cos of `relative_angles`: what every pair makes of equal tokens n apart, row n.

    Of sinusoids their sum over pairs is the inner product (Vaswani et al. 2017, arXiv:1706.03762,
    section 3.5), of plain RoPE half the score of q = k = ones.
    """
    return _relative(encoding, length).cos()


def _relative(encoding: Encoding, length: int) -> Float64[Tensor, "#h t r"]:
    if isinstance(encoding, Sinusoidal):
        return torch.arange(length)[None, :, None] * encoding.frequencies()
    if embeds_only(encoding):
        raise _still(encoding)
    at = Positions.build(1, length, causal=True, device=device_of(encoding))
    for term in lowered_alone(encoding, at).terms:
        if isinstance(term, Zones):
            near = -at.order_distance()[0, 0, 0, :, None] < term.width
            return torch.where(near, _turned(term.near), _turned(term.far)).flip(-2)
        if isinstance(term, Rotate):
            return _turned(term).flip(-2)
    raise _still(encoding)


def _still(encoding: Encoding) -> UnsupportedError:
    return UnsupportedError(
        f"relative_angles({encoding!r}): it turns no queries and keys; give a rotary encoding"
    )


def _turned(term: Rotate) -> Float64[Tensor, "#h t r"]:
    assert term.k_angle is not None
    return (term.q_angle - term.k_angle).detach()[0]
