"""Many gradients of one result at a time, behind the C kernels."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import UnsupportedError, attend
from posenc.native.library import LIBRARY

Gradients = Callable[[Tensor, Tensor, Tensor], Tensor]


def by_autograd(out: Tensor, x: Tensor, grads: Tensor) -> Tensor:
    return torch.autograd.grad(out, x, grads, is_grads_batched=True)[0]


def by_vmap(out: Tensor, x: Tensor, grads: Tensor) -> Tensor:
    return torch.func.vmap(lambda y: torch.autograd.grad(out, x, y, retain_graph=True)[0])(grads)


@pytest.fixture(params=[by_autograd, by_vmap])
def gradients(request: pytest.FixtureRequest) -> Gradients:
    return request.param


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_of_a_rotation_they_are_rotated_back(
    gradients: Gradients, layout: str, inplace: bool
) -> None:
    x = torch.randn(1, 2, 5, 8, requires_grad=True)
    lowered = pe.Rotary(8, layout=layout)
    out, _ = pe.rotate(x * 1, x * 1, lowered, inplace=inplace)
    grads = torch.randn(3, *out.shape)
    expected = [torch.autograd.grad(out, x, y, retain_graph=True)[0] for y in grads]
    torch.testing.assert_close(gradients(out, x, grads), torch.stack(expected))


@pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))
def test_of_attention_they_are_refused(gradients: Gradients) -> None:
    q = torch.ones(1, 2, 20, 8, requires_grad=True)
    out = attend(q, q, q, pe.ALiBi(2), causal=True, backend="native")
    grads = torch.stack((out, 2 * out)).detach()
    with pytest.raises(UnsupportedError, match=r"no batch of them.*reference"):
        gradients(out, q, grads)
    exact = attend(q, q, q, pe.ALiBi(2), causal=True, backend="reference")
    expected = [torch.autograd.grad(exact, q, y, retain_graph=True)[0] for y in grads]
    torch.testing.assert_close(gradients(exact, q, grads), torch.stack(expected))
