"""Inputs that fit an encoding: sizes of a layer, and what it may read of one, random but fixed."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posenc.encoding import Context, Encoding
from posenc.lowering import Lowered, lower
from posenc.positions import Positions


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model that an encoding fits."""

    heads: int
    kv_heads: int
    head_dim: int
    model_dim: int


def sizes_for(encoding: Encoding) -> Sizes:
    """The sizes that the encoding was made for; small ones where it names none."""
    heads, head_dim = encoding.heads or 4, encoding.head_dim
    if encoding.model_dim is not None and head_dim is None:
        head_dim = max(1, encoding.model_dim // heads)
    head_dim = head_dim or 8
    model_dim = encoding.model_dim or heads * head_dim
    return Sizes(heads, heads // 2 if heads % 2 == 0 else heads, head_dim, model_dim)


def embeds(encoding: Encoding) -> bool:
    """Whether it changes the embeddings."""
    return type(encoding).embed is not Encoding.embed


def context_for(
    encoding: Encoding,
    length: int = 9,
    dtype: torch.dtype = torch.float64,
    batch: int = 2,
) -> Context | None:
    """A layer's input and projections; None for an encoding that reads nothing of its layer."""
    if not encoding.tags.needs_context:
        return None
    sizes = sizes_for(encoding)
    generator = torch.Generator().manual_seed(13)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    x = draw(batch, length, sizes.model_dim)
    weights = [draw(sizes.heads, sizes.model_dim, sizes.head_dim) for _ in range(2)]
    # Each call makes its own payload, so that gradients, and autocast if it may, pass through it.
    project_q, project_k = ((lambda r, w=w: r @ w.to(r)) for w in weights)
    return Context(x, None, project_q, project_k)


def context_of_one_token(encoding: Encoding, length: int) -> Context | None:
    """What an encoding may read of a layer whose `length` tokens all have one content."""
    context = context_for(encoding, 1, batch=1)
    if context is None or context.x is None:
        return context
    x = context.x.to(device_of(encoding))
    return replace(context, x=x.expand(-1, length, -1))


def lowered_alone(encoding: Encoding, positions: Positions) -> Lowered:
    """Its terms in float64 where every token has one content, so that position alone speaks."""
    context = context_of_one_token(encoding, positions.k_len)
    return lower(encoding, positions, context=context, dtype=torch.float64)


def device_of(encoding: Encoding) -> torch.device:
    """Where its parameters are; the CPU where it has none."""
    first = next(encoding.parameters(), None)
    return torch.device("cpu") if first is None else first.device
