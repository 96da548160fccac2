from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Literal, cast, get_args

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from posenc.encoding import Encoding, Tags
from posenc.encodings._absolute import Merge, Table, working
from posenc.encodings._weights import linear_in_dtype
from posenc.encodings.learned import Learned
from posenc.errors import SettingError, installing, one_of, positive, whole
from posenc.torch_modes import autocast_off

Activation = Literal["tanh", "relu"]
# All but the first are torchdiffeq's, which choose their own steps. Its dopri8 is left out: between
# its long steps it interpolates, and misses a tolerance of 1e-9 by a factor of 1000.
Solver = Literal["rk4", "dopri5", "bosh3", "adaptive_heun", "fehlberg2"]


class Dynamics(nn.Module):
    """h(t, p) = outer(activation(inner(p, t)), t): two linear maps that each read the time too."""

    def __init__(self, dim: int, activation: Activation) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(dim + 1, dim), nn.Linear(dim + 1, dim)
        for linear in (self.inner, self.outer):
            nn.init.xavier_normal_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.activation = torch.tanh if activation == "tanh" else torch.relu

    def forward(self, t: float | Tensor, p: Float[Tensor, "e"]) -> Float[Tensor, "e"]:
        time = t.to(p).view(1) if isinstance(t, Tensor) else p.new_full((1,), t)
        hidden = self.activation(linear_in_dtype(torch.cat((p, time)), self.inner))
        return linear_in_dtype(torch.cat((hidden, time)), self.outer)


def rk4(
    field: Callable[[float, Tensor], Tensor], start: Tensor, delta: float, length: int, steps: int
) -> Tensor:
    """p at 0, delta, ..., (length - 1) * delta where dp/dt = field(t, p) and p(0) = start.

    Kutta's 3/8 rule, of order 4, in `steps` equal steps per delta, as torchdiffeq's "rk4".
    """
    h, p, path = delta / steps, start, [start]
    for i in range((length - 1) * steps):
        t = i * h
        k1 = field(t, p)
        k2 = field(t + h / 3, p + h * k1 / 3)
        k3 = field(t + h * 2 / 3, p + h * (k2 - k1 / 3))
        k4 = field(t + h, p + h * (k1 - k2 + k3))
        p = p + h * (k1 + 3 * (k2 + k3) + k4) / 8
        path.append(p)
    return torch.stack(path[::steps])


class FLOATER(Table):
    """Positions are points on the path of a trained differential equation.

        p(t) = p(0) + integral from 0 to t of h(s, p(s)) ds,   x[pos] + p(pos * delta)

    h(t, p) = outer(tanh(inner(p, t)), t) is as wide as dim; p(0) is trained. A token takes the
    time delta. With layers > 1 a Transformer adds p before each of its layers, and every layer
    has a path of its own: its p(0), and its h unless `share`.

    solver      "rk4" takes `steps` fixed steps per token and needs nothing; "dopri5", "bosh3",
                "adaptive_heun" and "fehlberg2" are torchdiffeq's, to `tolerance`, with gradients
                by the adjoint method; they need the extra "floater"
    activation  "tanh", or "relu", with which p can grow exponentially in delta * max_length

    Each call integrates up to its last position; `tabulated()` does so once, for inference. merge
    "multiply" is x * (1 + p), "hadamard" x * p, "concat" puts p beside x and takes one layer. The
    authors' code has delta=0.01, steps=5, activation="relu", share=True, and adds p to queries,
    keys and values. Raises SettingError for bad settings and for a layer that has no path,
    PositionsError for positions of max_length and more, for fractional ones, and for a bare tensor.

    Source: Liu et al. 2020, arXiv:2003.09229, section 3; github.com/xuanqing94/FLOATER.
    """

    name = "floater"
    paper = "arXiv:2003.09229"
    tags = Tags(
        needs_extent=True,
        compiles="the solver steps from token to token, which a graph would unroll per length",
        exports="the solver steps from token to token, which a graph would unroll for one length",
    )

    def __init__(
        self,
        dim: int,
        max_length: int,
        layers: int = 1,
        share: bool = False,
        delta: float = 0.1,
        solver: Solver = "rk4",
        steps: int = 1,
        tolerance: float = 1e-6,
        activation: Activation = "tanh",
        merge: Merge = "add",
    ) -> None:
        super().__init__(dim, max_length, merge)
        whole("FLOATER", layers=layers, steps=steps)
        positive("FLOATER", delta=delta, tolerance=tolerance)
        one_of("FLOATER", (False, True), share=share)
        one_of("FLOATER", get_args(Solver), solver=solver)
        one_of("FLOATER", get_args(Activation), activation=activation)
        if solver != "rk4" and find_spec("torchdiffeq") is None:
            raise SettingError(
                f"FLOATER(solver={solver!r}) needs torchdiffeq: {installing('floater')}, "
                'or take solver="rk4", which needs nothing'
            )
        if merge == "concat" and layers > 1:
            raise SettingError(
                f"FLOATER(layers={layers}, merge='concat'): later layers cannot be widened, "
                "so concat takes layers=1"
            )
        self.layers, self.share, self.delta, self.activation = layers, share, delta, activation
        self.solver, self.steps, self.tolerance = solver, steps, tolerance
        self.tags = replace(type(self).tags, every_layer=layers > 1)
        self.start = nn.Parameter(torch.randn(layers, dim) * 0.02)
        count = 1 if share else layers
        self.dynamics = nn.ModuleList(Dynamics(dim, activation) for _ in range(count))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, max_length=24, layers=2)
        yield cls(16, max_length=24, layers=2, share=True, steps=2, merge="multiply")
        yield cls(6, max_length=24, activation="relu", merge="concat")

    def rows(self, length: int, layer: int = 0) -> Float[Tensor, "rows e"]:
        # One path alone serves whichever layer asks.
        layer = layer if self.layers > 1 else 0
        if layer >= self.layers:
            raise SettingError(
                f"FLOATER(layers={self.layers}) was asked for layer {layer}: "
                f"construct it with layers >= {layer + 1}"
            )
        field, start = self.dynamics[0 if self.share else layer], working(self.start[layer])
        with autocast_off(start.device):
            if self.solver == "rk4":
                return rk4(field, start, self.delta, length, self.steps)
            from torchdiffeq import odeint_adjoint

            times = torch.arange(length, dtype=torch.float64, device=start.device) * self.delta
            tolerance = {"rtol": self.tolerance, "atol": self.tolerance}
            return odeint_adjoint(field, start, times, method=self.solver, **tolerance)

    @torch.no_grad()
    def tabulated(self, layer: int = 0) -> Learned:
        """All max_length rows of a layer as a table: the same numbers by look-up.

        It compiles and exports. Transformer(encoding=floater.tabulated) gives each layer its own.
        """
        return Learned.from_rows(self.rows(self.max_length, layer), self.merge)

    def reference_rows(self, length: int) -> Float64[Tensor, "rows e"]:
        field = cast(Dynamics, self.dynamics[0])
        weight_in, bias_in = (p.double() for p in (field.inner.weight, field.inner.bias))
        weight_out, bias_out = (p.double() for p in (field.outer.weight, field.outer.bias))

        def h(t: float, p: Tensor) -> Tensor:
            time = p.new_tensor([t])
            hidden = weight_in @ torch.cat((p, time)) + bias_in
            hidden = hidden.tanh() if self.activation == "tanh" else hidden.clamp(min=0)
            return weight_out @ torch.cat((hidden, time)) + bias_out

        # A solver that chooses its own steps is held to these, finer ones.
        steps = self.steps if self.solver == "rk4" else 20
        step, path = self.delta / steps, [self.start[0].double()]
        for i in range((length - 1) * steps):
            slopes: list[Tensor] = []
            for node, factors in ((0, ()), (1, (1,)), (2, (-1, 3)), (3, (3, -3, 3))):
                moves = [f / 3 * step * k for f, k in zip(factors, slopes, strict=True)]
                slopes.append(h((i + node / 3) * step, path[-1] + sum(moves)))
            mean = sum(f / 8 * k for f, k in zip((1, 3, 3, 1), slopes, strict=True))
            path.append(path[-1] + step * mean)
        return torch.stack(path[::steps])
