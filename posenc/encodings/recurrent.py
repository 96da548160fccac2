from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor, nn

from posenc.encoding import Encoding, Tags
from posenc.encodings._absolute import Merge, Table, working
from posenc.encodings.learned import Learned
from posenc.torch_modes import autocast_off


class Recurrent(Table):
    """Each position's vector follows from the one before by one trained map.

        p[k + 1] = tanh(weight p[k] + bias),   p[0] = start,   x[pos] + p[pos]

    weight (dim, dim) is orthogonal at first, which neither shrinks nor stretches p or its
    gradient; start and bias (dim,). The number of parameters does not grow with max_length, up to
    which rows may be asked for; each call computes all rows up to its last position, one after
    another, so for inference take `tabulated()`. merge "multiply" is x * (1 + p), "hadamard"
    x * p, "concat" puts p beside x. Raises PositionsError for positions of max_length and more, for
    fractional positions, and for a bare tensor, which does not tell how far it reaches.

    Source: p[k + 1] = f(p[k]) is the recursion behind Liu et al. 2020, arXiv:2003.09229, as told
    by Su, https://kexue.fm/archives/8130; this f, a recurrent net without input, is posenc's.
    """

    name = "recurrent"
    paper = "arXiv:2003.09229"
    tags = Tags(
        needs_extent=True,
        compiles="rows follow one another, which a graph would unroll anew for each length",
        exports="rows follow one another, which a graph would unroll for one length only",
    )

    def __init__(self, dim: int, max_length: int, merge: Merge = "add") -> None:
        super().__init__(dim, max_length, merge)
        self.start = nn.Parameter(torch.randn(dim))
        self.weight = nn.Parameter(nn.init.orthogonal_(torch.empty(dim, dim)))
        self.bias = nn.Parameter(torch.zeros(dim))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, max_length=24)
        yield cls(16, max_length=24, merge="multiply")
        yield cls(6, max_length=24, merge="concat")

    def rows(self, length: int, layer: int = 0) -> Float[Tensor, "rows e"]:
        p, weight, bias = working(self.start), working(self.weight), working(self.bias)
        rows = [p]
        with autocast_off(p.device):
            for _ in range(1, length):
                p = torch.tanh(F.linear(p, weight, bias))
                rows.append(p)
        return torch.stack(rows)

    @torch.no_grad()
    def tabulated(self) -> Learned:
        """All max_length rows as a table: the same numbers by look-up, to compile and export."""
        return Learned.from_rows(self.rows(self.max_length), self.merge)

    def reference_rows(self, length: int) -> Float64[Tensor, "rows e"]:
        weight, bias = self.weight.double(), self.bias.double()
        p = [self.start.double()]
        for k in range(length - 1):
            p.append(torch.stack([(w * p[k]).sum() for w in weight]).add(bias).tanh())
        return torch.stack(p)
