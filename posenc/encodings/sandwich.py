from collections.abc import Iterator

import torch

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags, bound_for
from posenc.encodings._turning import geometric
from posenc.errors import even, positive
from posenc.positions import Positions
from posenc.terms import DistanceTable, Term


class Sandwich(Encoding):
    """The inner product of two sinusoidal positions joins the score, weaker head by head.

        score[i, j] = scale * q[i] . k[j] + (p[i] . p[j] - dim/2) / (8h/H),   h = 1..H
        p[i] . p[j] = sum over r = 0 .. dim/2 - 1 of cos((i - j) * base**(-2r/dim))

    8h/H is the compression ratio of head h of H. Taking off dim/2, the product of a position with
    itself, makes the bias 0 there. The authors' code leaves it in (centered=False), which gives the
    same attention, for a softmax is blind to a constant, but larger scores, which cost digits. dim
    shapes the bias and need not be the model's. Nothing is trained. Positions are whole numbers of
    known extent. Raises SettingError for heads < 1, an odd dim and a base that is not positive.

    Source: Chi et al. 2022, arXiv:2212.10356, and the authors' code in its appendix E.
    """

    name = "sandwich"
    family = "bias"
    paper = "arXiv:2212.10356"
    tags = Tags(translation_invariant=True, norm_preserving=True, needs_extent=True)

    def __init__(
        self, heads: int, dim: int = 128, base: float = 10_000.0, centered: bool = True
    ) -> None:
        super().__init__()
        positive("Sandwich", heads=heads, base=base)
        self.heads, self.dim = heads, even("Sandwich", "dim", dim)
        self.base, self.centered = base, centered

    @classmethod
    def for_model(cls, *, heads: int, **_: object) -> Encoding:
        return cls(heads)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(12)
        yield cls(4, dim=10, base=500.0, centered=False)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        assert self.heads is not None
        bound, device = bound_for(self, positions), positions.device
        distance = torch.arange(1 - bound, bound, device=device).double()
        product = (distance[:, None] * geometric(self.base, self.dim, device)).cos().sum(dim=-1)
        if self.centered:
            product = product - self.dim / 2
        ratio = torch.arange(1, self.heads + 1, device=device).double() * 8 / self.heads
        return (DistanceTable((product / ratio[:, None]).to(dtype), zero=bound - 1),)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        def sinusoid(position: torch.Tensor) -> torch.Tensor:
            angles = [position / self.base ** (2 * r / self.dim) for r in range(self.dim // 2)]
            return torch.stack([wave(a) for a in angles for wave in (torch.sin, torch.cos)], dim=-1)

        product = torch.einsum("bip,bjp->bij", sinusoid(at.q), sinusoid(at.k))
        product = product - self.dim / 2 if self.centered else product
        total = at.scale * torch.einsum("bhid,bhjd->bhij", q, k)
        for h in range(q.shape[1]):
            total[:, h] += product / (8 * (h + 1) / q.shape[1])
        return total
