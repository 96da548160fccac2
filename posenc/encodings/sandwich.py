from collections.abc import Iterator

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from posenc.encoding import Encoding, Pairs
from posenc.encodings._distance import DistanceBias, Distances
from posenc.encodings._rotary import geometric
from posenc.errors import even, one_of, positive
from posenc.torch_modes import settled


class Sandwich(DistanceBias):
    """The inner product of two sinusoidal positions joins the score, weaker head by head.

        score[i, j] = scale * q[i] . k[j] + (p[i] . p[j] - dim/2) / (8h/H),   h = 1..H
        p[i] . p[j] = sum over r = 0 .. dim/2 - 1 of cos((i - j) * base**(-2r/dim))

    8h/H is the compression ratio of head h of H. Taking off dim/2, the product of a position with
    itself, makes the bias 0 there. The authors' code leaves it in (centered=False), which gives the
    same attention, for a softmax is blind to a constant, but larger scores, which cost digits. dim
    shapes the bias and need not be the model's. Nothing is trained. Whole positions are of known
    extent; fractional ones, such as time stamps, cost a number per pair. Raises SettingError for
    heads < 1, an odd dim and a base that is not positive.

    Source: Chi et al. 2022, arXiv:2212.10356, and the authors' code in its appendix E.
    """

    name = "sandwich"
    paper = "arXiv:2212.10356"

    def __init__(
        self, heads: int, dim: int = 128, base: float = 10_000.0, centered: bool = True
    ) -> None:
        super().__init__(heads)
        positive("Sandwich", base=base)
        one_of("Sandwich", (False, True), centered=centered)
        self.dim, self.base, self.centered = even("Sandwich", "dim", dim), base, centered

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(12)
        yield cls(4, dim=10, base=500.0, centered=False)

    def biases(self, distance: Distances, dtype: torch.dtype) -> Float[Tensor, "h n"]:
        return self._by_head(self._product(distance), self._eighths(distance.device), dtype)

    def table(
        self, past: int, future: int, dtype: torch.dtype, device: torch.device
    ) -> Float[Tensor, "h n"]:
        # An own class may count otherwise, and a graph keeps nothing.
        if type(self) is not Sandwich or torch.compiler.is_compiling():
            return super().table(past, future, dtype, device)
        # For up to twice as many distances: decoding asks for one more with each token.
        far = 1 << max(past, future, 31).bit_length()
        settings = self.heads, self.dim, self.base, self.centered, far

        def computed() -> tuple[Tensor, Tensor]:
            ahead = self._product(torch.arange(far + 1, device=device))
            return torch.cat((ahead[1:].flip(0), ahead)), self._eighths(device)

        product, eighths = settled(self, "tables", settings, device, computed)
        return self._by_head(product[far - past : far + future + 1], eighths, dtype)

    def _product(self, distance: Distances) -> Float64[Tensor, "n"]:
        frequencies = geometric(self.base, self.dim, distance.device)
        product = distance.double().outer(frequencies).cos_().sum(dim=-1)
        return product.sub_(self.dim / 2) if self.centered else product

    def _eighths(self, device: torch.device) -> Float64[Tensor, "h 1"]:
        """The compression ratio 8h/H of each head."""
        assert self.heads is not None
        eighths = torch.arange(8, 8 * self.heads + 8, 8, dtype=torch.float64, device=device)
        return eighths.div_(self.heads)[:, None]

    def _by_head(
        self, product: Float64[Tensor, "n"], eighths: Float64[Tensor, "h 1"], dtype: torch.dtype
    ) -> Float[Tensor, "h n"]:
        return (product / eighths).to(dtype)

    def reference_biases(self, at: Pairs) -> Float64[Tensor, "b h tq tk"]:
        def sinusoid(position: Tensor) -> Tensor:
            angles = [position / self.base ** (2 * r / self.dim) for r in range(self.dim // 2)]
            return torch.stack([wave(a) for a in angles for wave in (torch.sin, torch.cos)], dim=-1)

        product = torch.einsum("bip,bjp->bij", sinusoid(at.q), sinusoid(at.k))
        product = product - self.dim / 2 if self.centered else product
        heads = self.heads or 1
        return torch.stack([product / (8 * h / heads) for h in range(1, heads + 1)], dim=1)
