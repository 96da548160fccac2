"""Cached keys moved to other positions, without the keys as they were before they were turned."""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from posenc.encoding import Encoding
from posenc.errors import PositionsError, ShapeError, UnsupportedError
from posenc.lowering import lower
from posenc.positions import Positions, as_positions
from posenc.rotation import cos_sin, rotate_pairs
from posenc.terms import Rotate
from posenc.torch_modes import arithmetic, autocast_off


def rerotate(
    k: Float[Tensor, "b g t d"],
    old: Positions | Tensor,
    new: Positions | Tensor,
    rotary: Encoding,
) -> Float[Tensor, "b g t d"]:
    """Keys that `rotary` turned at positions `old`, as if it had turned them at `new`.

        R[new] k = R[new - old] R[old] k

    k    one layer's keys, as a Cache of policy "rotated" holds them
    old  coordinates (t,), (b, t) or (b, t, axes), or Positions, whose keys are meant
    new  likewise

    Each pair turns once more, by the difference of its two float64 angles; arithmetic is float32
    (float64 for float64 keys), so that keys in k's dtype are rounded once more. A gain stays as it
    is in k. Keys of later layers depend on positions by their content too, which nothing here
    changes: it is exact for one layer's keys, not for a model that would have read `new`.

    Raises UnsupportedError for an encoding that is not one rotation, for factors that differ by
    position (XPos, FoPE), ShapeError for one of other heads, PositionsError where the numbers of
    keys differ, and for frequencies that depend on a length that bare coordinates do not tell: give
    Positions.build(ids=..., extent=...).

    Example: `rerotate(cache.k, torch.arange(8), torch.arange(8) - 3, Rotary(64))`.

    Source: RoFormer, arXiv:2104.09864, equation 16; the shift of keys as in llama.cpp.
    """
    before, after = _rotation(k, old, rotary, "old"), _rotation(k, new, rotary, "new")
    assert before.k_angle is not None
    assert after.k_angle is not None
    dtype = arithmetic(k)
    with autocast_off(k.device):
        cos, sin = cos_sin(after.k_angle - before.k_angle, after.gain / before.gain, dtype)
        return rotate_pairs(k, cos, sin, before.layout, before.start).to(k.dtype)


def _rotation(k: Tensor, positions: Positions | Tensor, rotary: Encoding, name: str) -> Rotate:
    call = f"rerotate(k of shape {tuple(k.shape)}, ..., {rotary!r})"
    if rotary.head_dim not in (None, k.shape[-1]):
        raise ShapeError(
            f"{call}: it was made for head_dim={rotary.head_dim}: construct it for {k.shape[-1]}"
        )
    if not isinstance(positions, Positions) and rotary.tags.length_dependent:
        raise PositionsError(
            f"{call}: its frequencies depend on the length, which {name}= does not tell: "
            "give Positions.build(ids=..., extent=...)"
        )
    bare = isinstance(positions, Tensor)
    count = positions.shape[min(positions.ndim - 1, 1)] if bare else positions.k_len
    if count != k.shape[-2]:
        raise PositionsError(f"{call}: {name}= places {count} keys: give one position per key")
    positions = as_positions(positions, count) if bare else positions
    # Only the keys' angles are read, and these are the same with and without a causal mask.
    terms = lower(rotary, replace(positions, causal=True)).terms
    term = terms[0] if len(terms) == 1 else None
    if not isinstance(term, Rotate):
        kinds = [type(term).__name__ for term in terms]
        raise UnsupportedError(f"{call}: it lowers to {kinds}, and only one Rotate can be undone")
    if term.k_log_scale is not None:
        raise UnsupportedError(
            f"{call}: its factors differ by position, so that turning alone moves no key: keep "
            'keys as they are, Cache("raw"), and nothing need be turned again'
        )
    return term
