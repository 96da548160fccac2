"""Layers that share lowered terms, one after another."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import posenc as pe
from posenc import attention

KEYS, DIM, HEADS = 40, 8, 4
# How the same numbers may lie in memory: by head, by token, by dimension, as a part of wider rows.
WAYS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x,
    lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    lambda x: x.mT.contiguous().mT,
    lambda x: torch.cat((x, x), dim=-1)[..., : x.shape[-1]],
]
ENCODINGS: dict[str, Any] = {
    "nothing": lambda: None,
    "rotary": lambda: pe.Rotary(DIM),
    "xpos": lambda: pe.XPos(DIM),
    "alibi": lambda: pe.ALiBi(HEADS),
    "t5": lambda: pe.T5Bias(HEADS),
    "fire": lambda: pe.FIRE(HEADS, width=8),
    "shaw": lambda: pe.Shaw(DIM, clip=4),
    "transformer_xl": lambda: pe.TransformerXL(16, heads=HEADS, head_dim=DIM),
    "cope": lambda: pe.CoPE(DIM),
    "rerope": lambda: pe.ReRoPE(DIM, window=5),
    "window": lambda: [pe.Rotary(DIM), pe.SlidingWindow(3), pe.Sinks(1)],
    "temperature": lambda: [pe.Rotary(DIM), next(iter(pe.Temperature.examples()))],
}


def layer(queries: int, seed: int = 0, keys: int = KEYS, heads: int = HEADS) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = (2, HEADS, queries, DIM), (2, heads, keys, DIM), (2, heads, keys, DIM)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def lowered_for(encoding: Any, queries: int) -> pe.Lowered:
    return pe.lower(encoding, pe.Positions.build(queries, KEYS, causal=True))


def close(actual: Tensor, *call: Any, **more: Any) -> None:
    """Whether this is what the equation gives for a call of attend."""
    expected = attention.attend(*call, backend="reference", **more)
    bound = 4 * torch.finfo(actual.dtype).eps if actual.dtype.itemsize < 4 else 2e-5
    torch.testing.assert_close(actual, expected, rtol=bound, atol=bound)
