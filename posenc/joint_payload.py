"""Payloads of several encodings of one call as one tensor, so that caches and ranks carry one."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeGuard

import torch
from torch import Tensor

from posenc.encoding import Context, Encoding
from posenc.errors import PositionsError, UnsupportedError
from posenc.positions import Positions


def joined(payloads: Sequence[Tensor]) -> Tensor | None:
    """All of (b, ..., t): of one as it is, of several (b, n, t) with the rows of each in turn."""
    if len(payloads) < 2:
        return payloads[0] if payloads else None
    rows = [payload.flatten(1, -2) for payload in payloads]
    batch = max(x.shape[0] for x in rows)
    return torch.cat([x.expand(batch, -1, -1) for x in rows], dim=1)


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


def own_contexts(
    parts: Sequence[object], context: Context, positions: Positions
) -> list[Context | None]:
    """The context of each part, without padding, and with its own part of what `joined` made."""
    if context.x is not None and (x := of_real(context.x, positions)) is not context.x:
        context = replace(context, x=x)
    if context.payload is None or sum(map(keeps, parts)) < 2:
        return [context] * len(parts)
    found: list[Context | None] = []
    first = 0
    for part in parts:
        if not keeps(part):
            found.append(context)
            continue
        # Of no token, for its shape alone.
        width = part.model_dim
        made = None if width is None else part.payload(context.payload.new_zeros(1, 0, width))
        if made is None:
            raise UnsupportedError(
                f"two encodings of one call keep a payload per key, and {part!r} does not say of "
                "how wide an input: set its model_dim, or choose one of them"
            )
        shape = made.shape[1:-1]
        rows = context.payload[:, first : first + prod(shape)]
        first += prod(shape)
        found.append(replace(context, payload=rows.unflatten(1, shape)))
    return found


def keeps(part: object) -> TypeGuard[Encoding]:
    """Whether a part of an encoding keeps a payload of every token."""
    return isinstance(part, Encoding) and type(part).payload is not Encoding.payload
