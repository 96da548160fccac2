"""Turning queries and keys: what a Rotate term does to a tensor.

With the pair (x1, x2) and the angle a of its position,
    y1 = x1 cos a - x2 sin a,   y2 = x1 sin a + x2 cos a,
so that y_q . y_k depends on the difference of the two angles (RoFormer, equations 13 to 16).
"""

import torch
from torch import Tensor

from posenc.errors import ShapeError, UnsupportedError
from posenc.terms import Layout, Rotate

CosSin = tuple[Tensor, Tensor]


def cos_sin(angle: Tensor, gain: float, dtype: torch.dtype) -> CosSin:
    """cos and sin of float64 angles, times gain, rounded once to dtype."""
    cos, sin = angle.cos(), angle.sin()
    if gain != 1.0:
        cos, sin = cos * gain, sin * gain
    return cos.to(dtype), sin.to(dtype)


def turns_of(term: Rotate, dtype: torch.dtype) -> tuple[CosSin, CosSin | None]:
    """cos and sin of a term without log scales, for queries and keys; shared where angles are."""
    q_turn = cos_sin(term.q_angle, term.gain, dtype)
    if term.k_angle is None:
        return q_turn, None
    same = term.k_angle is term.q_angle
    return q_turn, q_turn if same else cos_sin(term.k_angle, term.gain, dtype)


def turn(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout, start: int = 0) -> Tensor:
    """x (b, h, t, d) with the pairs of its dimensions start .. start + 2r turned.

    cos, sin (1|b, 1|h, t, r). Arithmetic and result in the dtype of cos.
    """
    check_turn(x, cos, start)
    turned = 2 * cos.shape[-1]
    x = x.to(cos.dtype)
    part = x if turned == x.shape[-1] else x[..., start : start + turned]
    if layout == "half":
        first, second = part.chunk(2, dim=-1)
        part = torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
    else:
        first, second = part[..., 0::2], part[..., 1::2]
        pairs = (first * cos - second * sin, first * sin + second * cos)
        part = torch.stack(pairs, dim=-1).flatten(-2)
    if turned == x.shape[-1]:
        return part
    return torch.cat((x[..., :start], part, x[..., start + turned :]), dim=-1)


def check_turn(x: Tensor, cos: Tensor, start: int) -> None:
    """Raise ShapeError where angles of this shape cannot turn x."""
    turned = 2 * cos.shape[-1]
    if start + turned > x.shape[-1]:
        raise ShapeError(
            f"rotation turns dimensions {start} to {start + turned - 1}, "
            f"but the heads of shape {tuple(x.shape)} have {x.shape[-1]}"
        )
    # By !=, for torch 2.7's dynamo does not find a symbolic size in a tuple.
    batch, heads = cos.shape[:2]
    if (heads != 1 and heads != x.shape[1]) or (batch != 1 and batch != x.shape[0]):
        raise ShapeError(
            f"rotation has angles for {tuple(cos.shape[:2])} (batch, heads), "
            f"but the tensor has shape {tuple(x.shape)}"
        )


def turn_both(q: Tensor, k: Tensor, term: Rotate, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """q and k turned straight from the angles of the term: the specification of Rotate."""
    scaled = term.q_log_scale is not None or term.k_log_scale is not None
    # Factors that grow with position cancel in q . k only; float64 and one origin keep them finite.
    dtype = torch.float64 if scaled else dtype
    q_factor, k_factor = _rebased(term) if scaled else (1.0, 1.0)
    q_cos, q_sin = (wave * q_factor for wave in cos_sin(term.q_angle, term.gain, dtype))
    turned_q = turn(q, q_cos, q_sin, term.layout, term.start)
    if term.k_angle is None:
        return turned_q, k.to(dtype)
    k_cos, k_sin = (wave * k_factor for wave in cos_sin(term.k_angle, term.gain, dtype))
    return turned_q, turn(k, k_cos, k_sin, term.layout, term.start)


def _rebased(term: Rotate) -> tuple[Tensor, Tensor]:
    q_log, k_log = term.q_log_scale, term.k_log_scale
    if q_log is None or k_log is None or term.k_angle is None:
        raise UnsupportedError(
            "log scales of queries and keys cancel in pairs: Rotate needs both of them, and keys "
            'that were not turned before (Cache(policy="raw"))'
        )
    # Around the queries: keys long before them then vanish, as they should, and never overflow.
    origin = (q_log.amax(dim=-2, keepdim=True) + q_log.amin(dim=-2, keepdim=True)) / 2
    return (q_log - origin).exp(), (k_log + origin).exp()
