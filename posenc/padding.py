"""Padding is zero from where it enters: a weight of zero would let NaN through.

Letters: b batch, n heads, t tokens, d head dimension, c model dimension.
"""

from jaxtyping import Bool, Float
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions import Positions


def without_padding(
    q: Float[Tensor, "b h tq d"],
    k: Float[Tensor, "b g tk d"],
    v: Float[Tensor, "b g tk d_v"],
    positions: Positions,
    own: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, and new keys and values, zero where they are padding.

    own  which of all keys these are, int64 (tk,); None: the last

    Here, where they enter, so that no step of decoding copies its cache. A query of padding tells
    nobody anything, yet keys would get its gradient of 0 times what is not a number.
    """
    asked, new = positions.keys.valid, k.shape[2]
    if asked is not None and asked.shape[-1] != new:
        asked = asked[:, -new:] if own is None else asked.index_select(1, own)
    return zeroed(q, positions.queries.valid), zeroed(k, asked), zeroed(v, asked)


def zeroed(
    x: Float[Tensor, "b n t d"], valid: Bool[Tensor, "#b s"] | None
) -> Float[Tensor, "b n t d"]:
    """x, zero where it is padding; as it is where `valid` tells of other tokens, or lies elsewhere,
    which is refused later.
    """
    if valid is None or valid.shape[-1] != x.shape[2] or valid.device != x.device:
        return x
    return x.masked_fill(~valid[:, None, :, None], 0.0)


def of_real(x: Tensor, positions: Positions | Tensor | None) -> Tensor:
    """The layer's input (b, t, c), zero where a token is padding.

    Before anything is multiplied by it: what is not a number in padding would make the gradients of
    weights so, for 0 times it is none. Raises PositionsError for positions of another batch.
    """
    if not isinstance(positions, Positions) or x.ndim != 3:
        return x
    tokens = x.shape[1]
    # Where as many keys are of another rank, the input is still that of the queries.
    side = positions.queries if tokens == positions.q_len else positions.keys
    if side.valid is None or side.valid.shape[-1] < tokens:
        return x
    valid = side.valid[:, side.valid.shape[-1] - tokens :]
    if x.shape[0] == 1:
        # One row for all is of a token that is real in any.
        valid = valid.any(dim=0, keepdim=True)
    elif valid.shape[0] not in (1, x.shape[0]):
        raise PositionsError(
            f"positions for a batch of {valid.shape[0]}, but Context(x=...) has shape "
            f"{tuple(x.shape)}: give one row, or one per batch entry"
        )
    return x.masked_fill(~valid[..., None], 0)
