"""What every backend is given."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from posenc.lowering import Lowered
from posenc.normal_form.form import NormalForm


@dataclass(frozen=True, eq=False)
class Call:
    """One call of attend, checked and complete: the queries are as given, never rotated.

    Backends read `form`; the reference alone reads the terms.
    """

    q: Float[Tensor, "b h tq d"]
    k: Float[Tensor, "b g tk d"]
    v: Float[Tensor, "b g tk d_v"]
    lowered: Lowered
    scale: float
    dropout: float

    @property
    def form(self) -> NormalForm:
        """What is computed, in normal form."""
        return self.lowered.form
