from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags, bound_for
from posenc.encodings._weights import Affine, linear_in_dtype
from posenc.errors import positive, whole
from posenc.positions import Positions
from posenc.terms import DenseBias, Network, Term
from posenc.torch_modes import autocast_off


class FIRE(Encoding):
    """A small network of the distance as a share of the query's position joins the score.

        score[i, j] = scale * q[i] . k[j] + mlp(x)[h],   mlp: 1 -> width, ReLU, width -> heads
        x = psi(|i - j|) / (psi(max(L, i)) + eps),   psi(n) = log(|c * n| + 1)

    i is the position of the query, whatever the number of keys, so that decoding, padding and
    packing change nothing. c and L = |multiplier * initial_threshold| are trained in float32, from
    c = initial_c and multiplier = 1. The paper is about causal models; without causality |i - j|
    is taken, as the authors' code does. Of explicit positions the bias is a (b, h, tq, tk) tensor,
    made from (b, tq, tk, width) values: quadratic memory. Raises SettingError for a setting that
    is not positive.

    Source: Li et al. 2024, arXiv:2310.04418, section 3 and the code in the appendix.
    """

    name = "fire"
    family = "bias"
    paper = "arXiv:2310.04418"
    tags = Tags(norm_preserving=True)
    keep_float32 = ("c", "multiplier")

    def __init__(
        self,
        heads: int,
        width: int = 32,
        initial_c: float = 0.1,
        initial_threshold: float = 512.0,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        whole("FIRE", heads=heads, width=width)
        positive("FIRE", initial_c=initial_c, initial_threshold=initial_threshold, eps=eps)
        self.heads, self.width, self.eps = heads, width, eps
        self.initial_c, self.initial_threshold = initial_c, initial_threshold
        self.c = nn.Parameter(torch.tensor(float(initial_c)))
        self.multiplier = nn.Parameter(torch.tensor(1.0))
        self.hidden, self.output = Affine(1, width), Affine(width, heads)

    @classmethod
    def for_model(cls, *, heads: int, train_length: int, **_: object) -> Encoding:
        # Training must see positions beyond the threshold, or the division stays untried.
        return cls(heads, initial_threshold=max(1.0, train_length / 2))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(4, width=8, initial_threshold=6.0)
        yield cls(12)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        i, j = positions.one_axis("FIRE")
        counted = positions.unit_step and not (i.is_floating_point() or j.is_floating_point())
        i, j = i.double().view(-1, i.shape[-1], 1), j.double().view(-1, 1, j.shape[-1])
        c, threshold = self.c.double(), (self.multiplier.double() * self.initial_threshold).abs()
        by_query = 1 / (self._psi(c, i.maximum(threshold)) + self.eps)
        if counted:
            distance = torch.arange(bound_for(self, positions), device=i.device)
            hidden, output = self.hidden, self.output
            weights = hidden.weight[:, 0], hidden.bias, output.weight, output.bias
            return (Network(self._psi(c, distance.double()), by_query[..., 0], *weights),)
        share = self._psi(c, (i - j).abs()) * by_query
        share = share.to(torch.promote_types(self.c.dtype, dtype))
        with autocast_off(share.device):
            hidden = linear_in_dtype(share[..., None], self.hidden).relu()
            return (DenseBias(linear_in_dtype(hidden, self.output).movedim(-1, 1)),)

    @staticmethod
    def _psi(c: Tensor, n: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        return (c * n).abs().log1p()

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        total = at.scale * torch.einsum("bhid,bhjd->bhij", q, k)
        away, i = at.distance()[:, 0].abs(), at.q[:, :, None]
        threshold = torch.abs(self.multiplier * self.initial_threshold)
        normaliser = torch.log(torch.abs(self.c * torch.where(i > threshold, i, threshold)) + 1)
        x = torch.log(torch.abs(self.c * away) + 1) / (normaliser + self.eps)
        for h in range(q.shape[1]):
            total[:, h] += self.output.bias[h]
            for unit in range(self.width):
                before = self.hidden.weight[unit, 0] * x + self.hidden.bias[unit]
                total[:, h] += self.output.weight[h, unit] * torch.relu(before)
        return total
