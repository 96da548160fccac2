"""Payloads of several encodings of one call as one tensor, so that caches and ranks carry one."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeGuard

import torch
from torch import Tensor

from posenc.encoding import Context, Encoding
from posenc.errors import UnsupportedError
from posenc.padding import of_real
from posenc.positions import Positions


def joined(payloads: Sequence[Tensor]) -> Tensor | None:
    """All of (b, ..., t): of one as it is, of several (b, n, t) with the rows of each in turn."""
    if len(payloads) < 2:
        return payloads[0] if payloads else None
    rows = [payload.flatten(1, -2) for payload in payloads]
    batch = max(x.shape[0] for x in rows)
    return torch.cat([x.expand(batch, -1, -1) for x in rows], dim=1)


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
