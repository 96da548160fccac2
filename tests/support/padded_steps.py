"""Steps of decoding behind a padded prompt, each row against its own tokens alone."""

from typing import Any

import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, attend
from tests.support.oracles import drawing

HEADS, DIM, WIDTH = 4, 8, 8


@torch.no_grad()
def errors(
    parts: Any, cache: pe.Cache, mask: Tensor, steps: int, sized: int = 1, one_input: bool = False
) -> list[float]:
    """By how much the steps after a padded prompt differ from each row's own tokens in one call.

    one_input  whether the layers' input is one row for all of them
    """
    (batch, prompt), draw = mask.shape, drawing(2)
    total = prompt + steps
    q, k, v = (draw(batch, HEADS, total, DIM) for _ in range(3))
    x = draw(1 if one_input else batch, total, WIDTH)

    def told(rows: slice, tokens: Tensor) -> dict[str, Any]:
        own = slice(None) if one_input else rows
        context = pe.Context(x[own][:, tokens]) if reads_input(parts) else None
        return {"context": context}

    def tokens(rows: slice, at: Tensor) -> tuple[Tensor, ...]:
        return tuple(y[rows][:, :, at] for y in (q, k, v))

    every, first = slice(None), torch.arange(prompt)
    place = Positions.build(attention_mask=mask, causal=True)
    attend(*tokens(every, first), parts, positions=place, cache=cache, **told(every, first))
    outs = []
    for new in torch.arange(prompt, total).split(sized):
        call = told(every, new)
        outs.append(attend(*tokens(every, new), parts, causal=True, cache=cache, **call))
    got, found = torch.cat(outs, dim=2), []
    for row in range(batch):
        own = torch.cat((mask[row].nonzero()[:, 0], torch.arange(prompt, total)))
        alone = slice(row, row + 1)
        full = attend(*tokens(alone, own), parts, causal=True, **told(alone, own))
        found.append(float((got[alone] - full[:, :, -steps:]).abs().max()))
    return found


def reads_input(parts: Any) -> bool:
    return any(part.tags.needs_context for part in parts)


def padded(*rows: tuple[int, int], count: int) -> Tensor:
    """A mask (b, count) of rows whose real tokens go from one column up to another."""
    column = torch.arange(count)
    return torch.stack([(column >= start) & (column < stop) for start, stop in rows])
