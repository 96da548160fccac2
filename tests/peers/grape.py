from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from posenc.attention import attend
from posenc.encodings import GRAPE
from posenc.testing.agreement import Case, peer


@peer("grape", "torch")
def closed_form_of_the_authors() -> Iterator[Case]:
    """The closed form on the page of model-architectures/GRAPE: identity, L and its square"""
    for heads, dim in ((4, 12), (2, 7), (1, 2)):
        ours = _Ours(GRAPE(dim, heads).double())
        shape = (2, heads, 9, dim)
        yield Case(
            f"{heads} heads of {dim}, planes askew",
            lambda a, b, omega, *qkv, ours=ours: functional_call(
                ours, {"encoding.a": a, "encoding.b": b, "encoding.log_omega": omega.log()}, qkv
            ),
            _theirs,
            [
                *(torch.randn(heads, dim, dtype=torch.float64) for _ in range(2)),
                torch.rand(heads, dtype=torch.float64) + 0.1,
                *(torch.randn(shape, dtype=torch.float64) for _ in range(3)),
            ],
        )


class _Ours(nn.Module):
    """Attention as a module, so that functional_call can put planes in."""

    def __init__(self, encoding: GRAPE) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, self.encoding, causal=True)


def _theirs(a: Tensor, b: Tensor, omega: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """n omega L has the same plane as L, and n omega times its angle."""
    generator = a[:, :, None] * b[:, None, :] - b[:, :, None] * a[:, None, :]
    s = (a.square().sum(-1) * b.square().sum(-1) - (a * b).sum(-1).square()).sqrt()
    s = s[:, None, None, None]
    angle = omega[:, None, None, None] * torch.arange(q.shape[2])[:, None, None] * s
    one, generator = torch.eye(q.shape[-1], dtype=q.dtype), generator[:, None]
    turns = one + angle.sin() / s * generator
    turns = turns + (1 - angle.cos()) / s**2 * (generator @ generator)
    q, k = ((turns @ x[..., None])[..., 0] for x in (q, k))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)
