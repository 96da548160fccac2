"""Encodings, inputs and chunks by which tests decode through a cache."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import posenc as pe
from posenc import (
    Cache,
    Context,
    Encoding,
    Positions,
    Tags,
    Transformer,
    attend,
)
from posenc import terms as t
from tests.support.oracles import drawing

LENGTH, HEADS, KEY_HEADS, DIM = 9, 6, 3, 8

CHUNKS = [(4, 1, 1, 3), (1,) * LENGTH, (LENGTH,), (2, 5, 2)]

POLICIES = ["rotated", "raw"]


class Stretched(Encoding):
    """Frequencies that depend on the length, as DynamicNTK's do."""

    tags = Tags(length_dependent=True)
    head_dim = DIM

    def lower(self, positions, context=None, *, dtype=torch.float32):
        base = 100.0 * positions.bound
        frequency = base ** (-torch.arange(0, DIM, 2, dtype=torch.float64) / DIM)
        angles = [
            at.double().view(-1, 1, at.shape[-1], 1) * frequency
            for at in (positions.queries.position, positions.keys.position)
        ]
        return (t.Rotate(*angles, "half"),)


class Gated(Encoding):
    """A forget gate: each token takes the log of its gate off everything before it."""

    tags = Tags(needs_context=True, causal_only=True)

    def __init__(self, model_dim: int, heads: int) -> None:
        super().__init__()
        self.model_dim, self.heads = model_dim, heads
        self.gate = nn.Linear(model_dim, heads)

    def payload(self, x: Tensor) -> Tensor:
        return F.logsigmoid(self.gate(x)).transpose(1, 2)

    def lower(self, positions, context: Context, *, dtype=torch.float32):
        total = context.payload.double().cumsum(-1)
        return (t.Offset(total[..., -positions.q_len :], -total),)


class Terms(Encoding):
    """Terms made from positions by a function."""

    def __init__(self, make: Callable[[Positions], Sequence[t.Term]]) -> None:
        super().__init__()
        self.make = make

    def lower(self, positions, context=None, *, dtype=torch.float32):
        return tuple(self.make(positions))


def angles(positions: Positions, heads: int = 1) -> tuple[Tensor, Tensor]:
    frequency = torch.linspace(0.1, 1.0, heads * 2, dtype=torch.float64).view(heads, 1, 2)
    sides = (positions.queries.position, positions.keys.position)
    return tuple(at.double().view(-1, 1, at.shape[-1], 1) * frequency for at in sides)


def growing(positions: Positions) -> list[t.Term]:
    q, k = angles(positions)
    return [t.Rotate(q, k, "half", q_log_scale=-q, k_log_scale=k)]


def zoned(positions: Positions) -> list[t.Term]:
    q, k = angles(positions)
    return [t.Zones(t.Rotate(q, k, "half"), t.Rotate(q / 4, k / 4, "half"), 3)]


KEYS = t.GatherTable(drawing(1)(HEADS, 5, DIM), 2, "k", saturates=True)

ENCODINGS: dict[str, Any] = {
    "none": pe.NoPE(),
    "rotary": pe.Rotary(DIM),
    "rotary slice": pe.Rotary(DIM, rotary_dim=4, layout="interleaved"),
    "rotary, window, sink": [pe.Rotary(DIM), pe.SlidingWindow(3), pe.Sinks(1)],
    "alibi": pe.ALiBi(HEADS),
    "t5": pe.T5Bias(HEADS, buckets=4, max_distance=4).double(),
    "shaw": pe.Shaw(DIM, clip=2).double(),
    "rotary and shaw": [pe.Rotary(DIM), pe.Shaw(DIM, clip=2).double()],
    "keys": [KEYS],
}

# These read keys that were not turned.
RAW_ONLY: dict[str, Any] = {
    "rotary and keys": [pe.Rotary(DIM), KEYS],
    "zones": Terms(zoned),
    "growing": Terms(growing),
    "angles per query head": Terms(lambda at: [t.Rotate(*angles(at, HEADS), "half")]),
}


def qkv(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    draw = drawing(2)
    shapes = ((HEADS, DIM), (KEY_HEADS, DIM), (KEY_HEADS, DIM))
    return tuple(draw(2, heads, LENGTH, dim).to(dtype) for heads, dim in shapes)


def spans(chunks: Sequence[int]) -> Iterator[slice]:
    at = 0
    for size in chunks:
        yield slice(at, at + size)
        at += size


def decoded(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Any,
    cache: Cache,
    chunks: Sequence[int],
    place: Callable[[int, int], Positions] | None = None,
    backend: str = "auto",
) -> Tensor:
    """The output of all tokens, given to a cache chunk by chunk."""
    out = []
    for span in spans(chunks):
        where: dict[str, Any] = {"causal": True}
        if place is not None:
            where = {"positions": place(span.stop - span.start, span.stop)}
        new = [x[:, :, span] for x in (q, k, v)]
        out.append(attend(*new, encoding, cache=cache, backend=backend, **where))
        assert len(cache) == span.stop
    return torch.cat(out, dim=2)


def model(encoding: Any, **settings: Any) -> Transformer:
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "dim": 48, "depth": 3, "heads": HEADS, "kv_heads": KEY_HEADS}
    return Transformer(**sizes, encoding=encoding, **settings).double().eval()
