from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc.encoding import Encoding, Keys, Pairs, Queries, Scores
from posenc.encodings.forget_gate import ForgetGate


class CABLE(ForgetGate):
    """Each token says how steep the penalty of distance is where one looks across it.

        slope[t] = softplus(w[h] . x[t] + b[h])
        score[i, j] = scale * q[i] . k[j] - sum over l = j + 1 .. i of slope[l]

    In score per token. Where every slope is the same this is ALiBi. As log(sigmoid(z)) is
    -softplus(-z), it is also ForgetGate whose w and b have the other sign: they differ in where
    training starts, here at the default of nn.Linear. x, context, caches and errors are those of
    ForgetGate.

    Source: Veisi et al. 2025, arXiv:2503.08067, section 3, as in src/Cable.py of axiomlab/Cable.
    """

    name = "cable"
    paper = "arXiv:2503.08067"

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__(dim, heads)
        self.gate = nn.Linear(dim, heads)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, heads=4)

    def _log_gate(self, logit: Tensor) -> Tensor:
        return F.logsigmoid(-logit)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        assert at.context is not None
        assert at.context.x is not None
        slopes = (1 + (at.context.x @ self.gate.weight.T + self.gate.bias).exp()).log()
        total = at.scale * torch.einsum("bhid,bhjd->bhij", q, k)
        before = k.shape[2] - q.shape[2]
        for i in range(q.shape[2]):
            for j in range(before + i):
                total[:, :, i, j] -= slopes[:, j + 1 : before + i + 1].sum(dim=1)
        return total
