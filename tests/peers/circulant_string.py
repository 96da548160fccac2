from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from posenc.attention import attend
from posenc.encodings import CirculantSTRING
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer


@peer("circulant_string", "torch")
def fourier_transforms_of_the_paper() -> Iterator[Case]:
    """The paper's theorem 3.5: circulants applied to each token by fast Fourier transforms"""
    for heads, dim, axes, block in ((2, 12, 2, None), (4, 16, 3, 8), (1, 6, 1, None)):
        yield _case(heads, dim, axes, block)


def _case(heads: int, dim: int, axes: int, block: int | None) -> Case:
    places = torch.rand(2, 7, axes, dtype=torch.float64) * 9
    encoding = CirculantSTRING(dim, heads, axes, block=block).double()
    ids = places if axes > 1 else places[..., 0]
    ours, width = _Ours(encoding, Positions.build(ids=ids)), block or dim

    def theirs(c: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        spectrum = torch.fft.fft(c)
        generators = spectrum - spectrum.conj()
        turns = torch.einsum("bta,ahnm->bhtnm", places.to(generators.dtype), generators).exp()

        def turned(x: Tensor) -> Tensor:
            waves = torch.fft.fft(x.unflatten(-1, (-1, width)))
            return torch.fft.ifft(turns * waves).real.flatten(-2)

        return F.scaled_dot_product_attention(turned(q), turned(k), v)

    shape = (2, heads, 7, dim)
    return Case(
        f"{heads} heads of {dim} by blocks of {width}, {axes} coordinates",
        lambda c, *qkv: functional_call(ours, {"encoding.c": c}, qkv),
        theirs,
        [
            torch.randn(axes, heads, dim // width, width, dtype=torch.float64),
            *(torch.randn(shape, dtype=torch.float64) for _ in range(3)),
        ],
    )


class _Ours(nn.Module):
    """Attention as a module, so that functional_call can put circulants in."""

    def __init__(self, encoding: CirculantSTRING, positions: Positions) -> None:
        super().__init__()
        self.encoding, self.positions = encoding, positions

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, self.encoding, positions=self.positions)
