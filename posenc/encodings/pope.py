import math
from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._rotary import angle, geometric
from posenc.errors import one_of, positive, whole
from posenc.positions import Positions
from posenc.terms import Polar, Term

Init = Literal["zeros", "uniform"]


class PoPE(Encoding):
    """Polar coordinate positional embeddings: content tells magnitudes, position alone angles.

        score[i, j] = scale * sum over c of mu(q[i, c]) * mu(k[j, c])
                      * cos((k_position - q_position) * base**(-c/dim) + delta[h, c])
        mu(x) = softplus(x) = log(1 + exp(x))

    In radians; all dim dimensions c have a frequency each, where RoPE's pairs share dim/2, so that
    dim may be odd. In RoPE the phase of a pair depends on q and k too; here content cannot move
    where a dimension looks. delta (heads, dim) is trained, held within -2 pi .. 0, and starts at
    "zeros" or "uniform" over that range: init. It stays float32 when the module is cast down;
    angles are float64. scale is that of dim. A delta that an optimiser moves out of the range has
    no gradient there. For a PoPE without it, call delta.requires_grad_(False) on zeros.

    Backends meet queries and keys of 2 dim numbers, and values of dim. A cache keeps raw keys,
    Cache(policy="raw"), as small as those of others. It takes the place of a rotary encoding.
    Raises SettingError for sizes below 1, a base <= 0 and another init.

    Source: Gopalakrishnan et al. 2025, arXiv:2509.10534, section 3; frequencies, range and both
    starts as in x-transformers' PolarEmbedding.
    """

    name = "pope"
    family = "rotary"
    paper = "arXiv:2509.10534"
    sizes = ("head_dim", "heads")
    tags = Tags(translation_invariant=True)
    keep_float32 = ("delta",)

    def __init__(self, dim: int, heads: int, base: float = 10_000.0, init: Init = "zeros") -> None:
        super().__init__()
        whole("PoPE", dim=dim, heads=heads)
        positive("PoPE", base=base)
        one_of("PoPE", ("zeros", "uniform"), init=init)
        self.dim = self.head_dim = dim
        self.heads, self.base, self.init = heads, base, init
        delta = torch.zeros(heads, dim)
        self.delta = nn.Parameter(delta if init == "zeros" else delta.uniform_(-2 * math.pi, 0.0))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, heads=4, init="uniform")
        yield cls(5, heads=4, base=100.0)

    def angles(self, coordinates: Tensor) -> Float64[Tensor, "#b 1 t d"]:
        """The angle of each dimension at coordinates (t,) or (b, t), without delta."""
        return angle(coordinates, geometric(self.base, 2 * self.dim, coordinates.device))

    def phases(self) -> Float64[Tensor, "h d"]:
        """delta, held in its range."""
        delta = self.delta.double()
        # clamp has no gradient at its bounds from torch 2.15 on, and delta starts at one.
        return delta.masked_fill(delta > 0, 0.0).masked_fill(delta < -2 * math.pi, -2 * math.pi)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        q, k = positions.one_axis("PoPE")
        k_angle = self.angles(k)
        q_angle = k_angle if q is k else self.angles(q)
        # Taken off the query's angle, for query heads that share keys have each its own.
        return (Polar(q_angle - self.phases()[:, None], k_angle),)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        distance, total = at.distance(), torch.zeros((), dtype=q.dtype)
        for c in range(self.dim):
            delta = self.phases()[:, c, None, None]
            wave = torch.cos(distance * self.base ** (-c / self.dim) + delta)
            mu_q, mu_k = (torch.log1p(torch.exp(x[..., c])) for x in (q, k))
            total = total + mu_q[..., :, None] * mu_k[..., None, :] * wave
        return at.scale * total
