"""What queries and keys are the sum of: tokens, positions, and what mixes both.

Letters: b batch, h heads, t tokens, d head dimension, c width of the embeddings.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from posenc.encoding import Encoding
from posenc.errors import ShapeError, UnsupportedError
from posenc.positions import Positions
from posenc.torch_modes import autocast_off


@dataclass(frozen=True, eq=False)
class Sources:
    """Three summands of one tensor; what neither tokens nor positions have alone is the rest."""

    token: Tensor
    position: Tensor
    rest: Tensor

    def map(self, function: Callable[[Tensor], Tensor]) -> "Sources":
        return Sources(*map(function, (self.token, self.position, self.rest)))

    def with_constant(self, constant: Tensor | None) -> "Sources":
        """The same with a constant, such as a bias, which counts as the token's."""
        if constant is None:
            return self
        return Sources(self.token + constant, self.position, self.rest)

    def whole(self) -> Tensor:
        return self.token + self.position + self.rest


def of_tokens(x: Tensor) -> Sources:
    return Sources(x, torch.zeros_like(x), torch.zeros_like(x))


def embedded(x: Float[Tensor, "b t c"], parts: list[Encoding], positions: Positions) -> Sources:
    """What encodings that change the embeddings make of x: x, what they make of zeros, the rest."""

    def embed(x: Tensor) -> Tensor:
        for part in parts:
            x = part.embed(x, positions)
        return x

    whole, position = embed(x), embed(torch.zeros_like(x))
    token = F.pad(x, (0, whole.shape[-1] - x.shape[-1]))
    return Sources(token, position, whole - (token + position))


def normed(sources: Sources, norm: nn.Module | None) -> Sources:
    """The sources of norm(whole), whose mean and scale are those of the whole.

        LayerNorm   (part - mean(part)) / sqrt(var(whole) + eps) * weight   + bias
        RMSNorm     part / sqrt(mean(whole**2) + eps) * weight

    With these statistics fixed a norm is linear, so that the split is exact.
    """
    if norm is None:
        return sources
    whole = sources.whole()
    weight, bias = getattr(norm, "weight", None), getattr(norm, "bias", None)
    result = None
    if all(p is None or p.shape == whole.shape[-1:] for p in (weight, bias)):
        eps = getattr(norm, "eps", None) or getattr(norm, "variance_epsilon", None)
        eps = eps or torch.finfo(whole.dtype).eps
        centred = sources
        if isinstance(norm, nn.LayerNorm):
            centred = sources.map(lambda part: part - part.mean(dim=-1, keepdim=True))
        scale = (centred.whole().square().mean(dim=-1, keepdim=True) + eps).rsqrt()
        scale = scale if weight is None else scale * weight
        result = centred.map(lambda part: part * scale).with_constant(bias)
    expected = norm(whole)
    allowed = {"rtol": 1e-4, "atol": 1e-4 * expected.abs().max().item()}
    if (
        result is None
        or expected.shape != whole.shape
        or not torch.allclose(result.whole(), expected, **allowed)
    ):
        raise UnsupportedError(
            f"decompose(..., norm={norm!r}): it is neither a LayerNorm nor an RMSNorm over the "
            "width of the embeddings, with weight and bias as torch has them, so that what tokens "
            "and positions become is not known: decompose the queries and keys after it"
        )
    return result


def projected(sources: Sources, name: str, weight: Tensor | None, bias: Tensor | None) -> Sources:
    """Sources of queries or keys (b, h, t, d), from weights (c, h, d) and a bias (h, d)."""
    width = sources.token.shape[-1]
    if weight is None or weight.ndim != 3 or weight.shape[0] != width:
        shape = None if weight is None else tuple(weight.shape)
        raise ShapeError(
            f"decompose(x, encoding, w_q, w_k): w_{name} has shape {shape}, but embeddings are "
            f"{width} wide: ({width}, heads, head dimension) is needed"
        )
    if bias is not None and bias.shape != weight.shape[1:]:
        raise ShapeError(
            f"decompose(..., b_{name}=...): b_{name} has shape {tuple(bias.shape)}, but w_{name} "
            f"makes {tuple(weight.shape[1:])}, (heads, head dimension)"
        )
    with autocast_off(sources.token.device):
        heads = sources.map(lambda part: torch.einsum("btc,chd->bhtd", part, weight))
        return heads.with_constant(None if bias is None else bias[:, None])
