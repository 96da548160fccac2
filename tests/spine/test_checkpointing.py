"""Under torch.utils.checkpoint attention is computed twice, and gradients stay as they are."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import posenc as pe

ENCODINGS = {
    name: example
    for name, kind in pe.encodings().items()
    for example in [next(iter(kind.examples()))]
    if not example.tags.needs_context and kind.lower is not pe.Encoding.lower
}


def gradients(
    attend: Callable[..., Tensor], encoding: pe.Encoding, reentrant: bool | None
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    heads, dim = encoding.heads or 4, encoding.head_dim or 8
    inputs = [torch.randn(2, heads, 12, dim, generator=generator) for _ in range(3)]
    leaves = [x.requires_grad_() for x in inputs] + list(encoding.parameters())
    if reentrant is None:
        out = attend(*inputs)
    else:
        out = checkpoint(attend, *inputs, use_reentrant=reentrant)
    out.square().sum().backward()
    found = [x.grad.clone() for x in leaves if x.grad is not None]
    encoding.zero_grad()
    return found


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding(name: str, reentrant: bool) -> None:
    encoding = ENCODINGS[name]

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return pe.attend(q, k, v, encoding, causal=True)

    kept = gradients(attend, encoding, None)
    again = gradients(attend, encoding, reentrant)
    assert len(again) == len(kept) >= 3
    for one, other in zip(again, kept, strict=True):
        torch.testing.assert_close(one, other)
