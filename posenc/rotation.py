"""Rotating queries and keys: what a Rotate term does to a tensor.

With the pair (x1, x2) and the angle a of its position,
    y1 = x1 cos a - x2 sin a,   y2 = x1 sin a + x2 cos a,
so that y_q . y_k depends on the difference of the two angles (RoFormer, equations 13 to 16).
"""

import torch
from torch import Tensor

from posenc.errors import ShapeError, UnsupportedError
from posenc.terms import Layout, Rotate
from posenc.torch_modes import plain

CosSin = tuple[Tensor, Tensor]
# Logarithms of what grows with position, of queries and of keys; None where all are 0.
Growth = tuple[Tensor | None, Tensor | None]
# Logarithms of factors of queries that float32 holds, with room for those of keys that underflow
# beside them, and of keys.
_Q_REACH, _K_REACH = 60.0, 80.0


def cos_sin(angle: Tensor, gain: float, dtype: torch.dtype) -> CosSin:
    """cos and sin of float64 angles, times gain, rounded once to dtype."""
    cos, sin = angle.cos(), angle.sin()
    if gain != 1.0:
        cos, sin = cos * gain, sin * gain
    return cos.to(dtype), sin.to(dtype)


def waves_of(
    term: Rotate, dtype: torch.dtype, growth: Growth | None = None
) -> tuple[CosSin, CosSin | None]:
    """cos and sin of queries and keys, times what grows; shared where angles are.

    growth  what `growth_held` gave of this term, where that was asked before
    """
    same = term.k_angle is term.q_angle
    if term.grows and term.k_angle is not None:
        logs = _rebased(term, 1, 1) if growth is None else growth
        if same and logs[0] is None and logs[1] is None:
            cos, sin = cos_sin(term.q_angle, term.gain, dtype)
            # Apart, for those of other tokens differ.
            return (cos, sin), (cos, sin)
        q_waves = cos_sin(term.q_angle, term.gain, torch.float64)
        k_waves = q_waves if same else cos_sin(term.k_angle, term.gain, torch.float64)
        return _grown(q_waves, logs[0], dtype), _grown(k_waves, logs[1], dtype)
    q_waves = _scaled(term.q_angle, term.q_log_scale, term.gain, dtype)
    if term.k_angle is None:
        return q_waves, None
    if same and term.k_log_scale is term.q_log_scale:
        return q_waves, q_waves
    return q_waves, _scaled(term.k_angle, term.k_log_scale, term.gain, dtype)


def _scaled(angle: Tensor, log_scale: Tensor | None, gain: float, dtype: torch.dtype) -> CosSin:
    """cos and sin times factors that are bounded."""
    if log_scale is None:
        return cos_sin(angle, gain, dtype)
    return _grown(cos_sin(angle, gain, torch.float64), log_scale, dtype)


def _grown(waves: CosSin, log_scale: Tensor | None, dtype: torch.dtype) -> CosSin:
    cos, sin = waves
    if log_scale is None:
        return cos.to(dtype), sin.to(dtype)
    factor = log_scale.exp()
    return (cos * factor).to(dtype), (sin * factor).to(dtype)


def growth_held(term: Rotate) -> Growth | None:
    """Logarithms of what grows with position, of queries and keys around one origin, where float32
    holds cos and sin times it; else None.

    Of XPos it does up to 49,000 tokens. Only the values tell: a graph cannot read them, and says
    no; a GPU is waited for.
    """
    tables = [x for x in (term.q_log_scale, term.k_log_scale) if x is not None]
    if len(tables) < 2 or term.k_angle is None or torch.compiler.is_compiling():
        return None
    if not plain(*tables) or any(x.is_meta or x.shape[1] > 1 or x.numel() == 0 for x in tables):
        return None
    q_log, k_log = _rebased(term, 1, 1)
    q_low = q_high = 0.0
    # Of one query it is 0.
    if q_log.shape[2] > 1:
        q_low, q_high = _range(q_log)
    k_low, k_high = _range(k_log)
    if not (-_Q_REACH <= q_low <= q_high <= _Q_REACH and k_high <= _K_REACH):
        return None
    # Those of a token that meets itself alone.
    return None if q_low == q_high == 0 else q_log, None if k_low == k_high == 0 else k_log


def _range(x: Tensor) -> tuple[float, float]:
    low, high = x.aminmax()
    return low.item(), high.item()


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout, start: int = 0) -> Tensor:
    """x (b, h, t, d) with the pairs of its dimensions start .. start + 2r rotated.

    cos, sin (1|b, 1|h, t, r). Arithmetic and result in the dtype of cos.
    """
    check_rotation(x, cos, start)
    width = 2 * cos.shape[-1]
    x = x.to(cos.dtype)
    part = x if width == x.shape[-1] else x[..., start : start + width]
    if layout == "half":
        first, second = part.chunk(2, dim=-1)
        part = torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
    else:
        first, second = part[..., 0::2], part[..., 1::2]
        pairs = (first * cos - second * sin, first * sin + second * cos)
        # No flatten, which a batch of gradients cannot.
        part = torch.stack(pairs, dim=-1).reshape(part.shape)
    if width == x.shape[-1]:
        return part
    return torch.cat((x[..., :start], part, x[..., start + width :]), dim=-1)


def check_rotation(x: Tensor, cos: Tensor, start: int) -> None:
    """Raise ShapeError where angles of this shape cannot rotate x."""
    width = 2 * cos.shape[-1]
    if start < 0 or start + width > x.shape[-1]:
        raise ShapeError(
            f"rotation turns dimensions {start} to {start + width - 1}, "
            f"but the heads of shape {tuple(x.shape)} have {x.shape[-1]}"
        )
    # By !=, for torch 2.7's dynamo does not find a symbolic size in a tuple.
    batch, heads, tokens = cos.shape[:3]
    fits = (heads == 1 or heads == x.shape[1]) and (batch == 1 or batch == x.shape[0])
    if not fits or (tokens != 1 and tokens != x.shape[2]):
        raise ShapeError(
            f"rotation has angles for {tuple(cos.shape[:3])} (batch, heads, tokens), "
            f"but the tensor has shape {tuple(x.shape)}"
        )


def rotate_both(q: Tensor, k: Tensor, term: Rotate, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """q and k rotated straight from the angles of the term: the specification of Rotate."""
    # Factors that grow with position cancel in q . k only; float64 and one origin keep them finite.
    dtype = torch.float64 if term.grows else dtype
    q_log, k_log = term.q_log_scale, term.k_log_scale
    if term.grows:
        q_log, k_log = _rebased(term, q.shape[1], k.shape[1])
    q_cos, q_sin = _scaled(term.q_angle, q_log, term.gain, dtype)
    rotated_q = rotate_pairs(q, q_cos, q_sin, term.layout, term.start)
    if term.k_angle is None:
        return rotated_q, k.to(dtype)
    k_angle = _for_heads(term.k_angle, k.shape[1])
    k_log = None if k_log is None else _for_heads(k_log, k.shape[1])
    k_cos, k_sin = _scaled(k_angle, k_log, term.gain, dtype)
    return rotated_q, rotate_pairs(k, k_cos, k_sin, term.layout, term.start)


def per_query_head(k: Tensor, term: Rotate, heads: int) -> Tensor:
    """k (b, g, tk, d), or a copy for each query head where every one rotates keys by its own."""
    if k.shape[1] == heads:
        return k
    own = [table.shape[1] for table in (term.k_angle, term.k_log_scale) if table is not None]
    repeats = heads // k.shape[1] if max(own, default=1) > k.shape[1] else 1
    return k if repeats == 1 else k.repeat_interleave(repeats, dim=1)


def _rebased(term: Rotate, heads: int, key_heads: int) -> tuple[Tensor, Tensor]:
    """Logarithms of factors of queries and keys, around one origin for all pairs of a key head."""
    q_log, k_log = term.q_log_scale, term.k_log_scale
    if q_log is None or k_log is None or term.k_angle is None:
        raise UnsupportedError(
            "log scales of queries and keys cancel in pairs: Rotate needs both of them, and keys "
            'that were not rotated before (Cache(policy="raw"))'
        )
    q_log, k_log = _for_heads(q_log, heads), _for_heads(k_log, key_heads)
    if q_log.shape[2] == 1 and heads == key_heads:
        # The midst of one query is itself.
        return q_log - q_log, k_log + q_log
    low, high = q_log.amin(dim=-2, keepdim=True), q_log.amax(dim=-2, keepdim=True)
    if q_log.shape[1] > key_heads:
        groups = (key_heads, q_log.shape[1] // key_heads)
        low, high = low.unflatten(1, groups).amin(2), high.unflatten(1, groups).amax(2)
    # Around the queries: keys long before them then vanish, as they should, and never overflow.
    origin = (low + high) / 2
    return q_log - _for_heads(origin, heads), k_log + origin


def _for_heads(table: Tensor, heads: int) -> Tensor:
    """A table (1|b, g, t, r) by key head as one by query head; one row for all stays one."""
    own = table.shape[1]
    return table.repeat_interleave(heads // own, dim=1) if 1 < own < heads else table
