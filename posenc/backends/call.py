"""What every backend is given."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from posenc.lowering import Lowered


@dataclass(frozen=True, eq=False)
class Call:
    """One call of attend, checked and complete: the queries are as given, never turned."""

    q: Float[Tensor, "b h tq d"]
    k: Float[Tensor, "b g tk d"]
    v: Float[Tensor, "b g tk d_v"]
    lowered: Lowered
    scale: float
    dropout: float
