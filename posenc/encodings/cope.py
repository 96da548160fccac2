from collections.abc import Iterator

import torch
from torch import nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.errors import SettingError, given, whole
from posenc.positions import Positions
from posenc.terms import CountTable, Term


class CoPE(Encoding):
    """Each query counts the keys that it picks out, and reads a trained vector at the count.

        gate[i, t] = sigmoid(scale * q[i] . k[t])
        p[i, j] = min(sum over t = j .. i of gate[i, t], max_position - 1)
        score[i, j] = scale * q[i] . k[j] + q[i] . e[p[i, j]]

    Between two whole counts e is interpolated. e has max_position rows, for counts from 0 to
    max_position - 1, of dim numbers, the head dimension; they start at zero. heads None shares e
    among all heads, as the paper does; a number gives each head its own. Only visible keys are
    counted, by their scaled content without biases; turned by a rotary encoding beside it, whereas
    e is read by q as it was given. Causal attention only. By the C kernels memory grows with the
    length; without them the counts of many pairs are held at once. Raises SettingError for dim or
    heads < 1 and for max_position < 2.

    Source: Golovneva et al. 2024, arXiv:2405.18719, section 4 and the code in its appendix.
    """

    name = "cope"
    family = "content"
    paper = "arXiv:2405.18719"
    tags = Tags(causal_only=True, translation_invariant=True)

    def __init__(self, dim: int, max_position: int = 64, heads: int | None = None) -> None:
        super().__init__()
        whole("CoPE", dim=dim, max_position=max_position, **given(heads=heads))
        if max_position < 2:
            raise SettingError(
                f"CoPE(max_position={max_position}): it is the number of rows, and one row holds "
                "the count 0 alone, so at least 2 are needed"
            )
        self.dim, self.max_position, self.heads = dim, max_position, heads
        self.head_dim = dim
        tables = 1 if heads is None else heads
        self.weight = nn.Parameter(torch.zeros(tables, max_position, dim))

    @classmethod
    def for_model(cls, *, head_dim: int, train_length: int, **_: object) -> Encoding:
        # A count that no training text reaches would stay untrained.
        return cls(head_dim, max(2, min(64, train_length)))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, max_position=4)
        yield cls(8, max_position=12, heads=6)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        return (CountTable(self.weight),)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        total = at.scale * torch.einsum("bhid,bhjd->bhij", q, k)
        q_order, k_order = at.orders()
        gates = total.sigmoid() * (k_order <= q_order)
        for h in range(q.shape[1]):
            e = self.weight[0 if self.heads is None else h]
            for j in range(k.shape[2]):
                p = gates[:, h, :, j:].sum(dim=-1).clamp(max=self.max_position - 1)
                share = (p - p.floor())[..., None]
                vector = share * e[p.ceil().long()] + (1 - share) * e[p.floor().long()]
                total[:, h, :, j] += (q[:, h] * vector).sum(dim=-1)
        return total
