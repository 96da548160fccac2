from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from posenc.encodings import FLOATER
from posenc.testing.agreement import Case, peer
from tests.peers._layers import set_alike


@peer("floater", "torchdiffeq")
def fixed_steps() -> Iterator[Case]:
    """odeint, method rk4 on the same grid"""
    yield _path(FLOATER(7, 1), layer=0)
    yield _path(FLOATER(80, 17, layers=3), layer=2)
    yield _path(FLOATER(12, 40, layers=2, share=True, steps=5, delta=0.04), layer=1)
    yield _path(FLOATER(6, 17, activation="relu", merge="multiply"), layer=0)


@peer(
    "floater",
    "torchdiffeq",
    gradient=1e-9,
    cap="theirs differentiates the solver's steps and interpolation, ours is the adjoint method",
)
def chosen_steps() -> Iterator[Case]:
    """odeint, method dopri5"""
    yield _path(FLOATER(9, 12, layers=2, solver="dopri5", tolerance=1e-13), layer=1)
    yield _path(FLOATER(12, 5, delta=0.3, solver="dopri5", tolerance=1e-13), layer=0)


class _Field(nn.Module):
    def __init__(self, dim: int, activation: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(dim + 1, dim), nn.Linear(dim + 1, dim)
        self.activation = nn.Tanh() if activation == "tanh" else nn.ReLU()

    def forward(self, t: Tensor, p: Tensor) -> Tensor:
        hidden = self.activation(self.first(torch.cat((p, t[None]))))
        return self.second(torch.cat((hidden, t[None])))


def _path(encoding: FLOATER, layer: int) -> Case:
    from torchdiffeq import odeint

    encoding = encoding.double()
    dim, length = encoding.dim, encoding.max_length
    field = _Field(dim, encoding.activation).double()
    start = torch.zeros_like(encoding.start).requires_grad_()
    own: Any = encoding.dynamics[0 if encoding.share else layer]
    weights = [set_alike(encoding.start, start)]
    for ours, theirs in ((own.inner, field.first), (own.outer, field.second)):
        weights += [set_alike(ours.weight, theirs.weight), set_alike(ours.bias, theirs.bias)]
    with torch.no_grad():
        # Weights of this size would make the path steep, and amplify rounding.
        for pair in weights[1:]:
            for leaf in pair:
                leaf.mul_(dim**-0.5)

    def path(x: Tensor) -> Tensor:
        steps = encoding.steps
        # More digits than float32 holds, so that both read the same times.
        times = torch.arange((length - 1) * steps + 1).double() * (encoding.delta / steps)
        tolerance = {"rtol": encoding.tolerance, "atol": encoding.tolerance}
        p = odeint(field, start[layer], times, method=encoding.solver, **tolerance)[::steps]
        return x + p if encoding.merge == "add" else x * (1 + p)

    return Case(
        f"{encoding!r}, layer {layer}",
        lambda x: encoding.embed(x, None, layer=layer),
        path,
        [torch.randn(2, length, dim, dtype=torch.float64)],
        weights,
    )
