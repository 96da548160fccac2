from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from posenc.encoding import Encoding, Tags
from posenc.encodings._merge import Merge
from posenc.encodings._ode import Activation, Dynamics, Solver, adaptive, check_solver, rk4
from posenc.encodings._table import Table, working
from posenc.encodings.learned import Learned
from posenc.errors import SettingError, positive
from posenc.torch_modes import autocast_off


class FLOATER(Table):
    """Positions are points on the path of a trained differential equation.

        p(t) = p(0) + integral from 0 to t of h(s, p(s)) ds,   x[pos] + p(pos * delta)

    h(t, p) = outer(tanh(inner(p, t)), t) is as wide as dim; p(0) is trained. A token takes the
    time delta. With layers > 1 a Transformer adds p before each of its layers, and every layer
    has a path of its own: its p(0), and its h unless `share`.

    solver      "rk4" takes `steps` fixed steps per token and needs nothing; "dopri5", "bosh3",
                "adaptive_heun" and "fehlberg2" are torchdiffeq's, to `tolerance`, with gradients
                by the adjoint method: pip install "posenc[floater]"
    activation  "tanh", or "relu", with which p can grow exponentially in delta * max_length

    Each call integrates up to its last position; `tabulated()` does so once, for inference. merge
    "multiply" is x * (1 + p), "concat" puts p beside x and takes one layer. The authors' code has
    delta=0.01, steps=5, activation="relu", share=True, and adds p to queries, keys and values.
    Raises SettingError for bad settings and for a layer that has no path, PositionsError for
    positions of max_length and more, for fractional ones, and for a bare tensor.

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
        positive("FLOATER", layers=layers, delta=delta, steps=steps, tolerance=tolerance)
        check_solver("FLOATER", solver)
        if activation not in ("tanh", "relu"):
            raise SettingError(f"FLOATER(activation={activation!r}): 'tanh' or 'relu'")
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
    def for_model(cls, *, model_dim: int, max_length: int, **_: object) -> Encoding:
        return cls(model_dim, max_length)

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
            return adaptive(field, start, self.delta, length, self.solver, self.tolerance)

    @torch.no_grad()
    def tabulated(self, layer: int = 0) -> Learned:
        """All max_length rows of a layer as a table: the same numbers by look-up.

        It compiles and exports. Transformer(encoding=floater.tabulated) gives each layer its own.
        """
        return Learned.from_rows(self.rows(self.max_length, layer), self.merge)

    def reference_rows(self, length: int) -> Float64[Tensor, "rows e"]:
        inner, outer = ((p.double() for p in self._maps(name)) for name in ("inner", "outer"))
        (weight_in, bias_in), (weight_out, bias_out) = inner, outer

        def h(t: float, p: Tensor) -> Tensor:
            at = p.new_tensor([t])
            hidden = weight_in @ torch.cat((p, at)) + bias_in
            hidden = hidden.tanh() if self.activation == "tanh" else hidden.clamp(min=0)
            return weight_out @ torch.cat((hidden, at)) + bias_out

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

    def _maps(self, name: str) -> list[Tensor]:
        return [self.get_parameter(f"dynamics.0.{name}.{part}") for part in ("weight", "bias")]
