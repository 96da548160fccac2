from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from posenc.attention import attend
from posenc.encodings import CayleySTRING
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer


@peer("cayley_string", "torch")
def attention_of_lsp_detr() -> Iterator[Case]:
    """CayleySTRING of RationAI's LSP-DETR, in own words: equations solved for each token"""
    for heads, dim, axes in ((2, 12, 2), (4, 6, 3), (1, 16, 1)):
        yield _case(heads, dim, axes)


def _case(heads: int, dim: int, axes: int) -> Case:
    places = torch.rand(2, 7, axes, dtype=torch.float64) * 9
    encoding = CayleySTRING(dim, heads, axes, base=100.0, layout="interleaved").double()
    ids = places if axes > 1 else places[..., 0]
    ours = _Ours(encoding, Positions.build(ids=ids))
    row, column = torch.triu_indices(dim, dim, 1)

    def with_parameters(s: Tensor, frequency: Tensor, *qkv: Tensor) -> Tensor:
        upper = s[row, column].expand(heads, -1)
        names = {"encoding.upper": upper, "encoding.frequency": frequency}
        return functional_call(ours, names, qkv)

    def theirs(s: Tensor, frequency: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """One S for all heads, whose columns of tokens are solved for one by one."""
        above = s.triu(1)
        s, one = above - above.mT, torch.eye(dim, dtype=s.dtype)
        angles = torch.einsum("bta,ahr->bhtr", places, frequency)
        turns = torch.polar(torch.ones_like(angles), angles)

        def turned(x: Tensor) -> Tensor:
            solved = torch.linalg.solve(one + s, x[..., None])[..., 0]
            pairs = torch.view_as_complex((solved @ (one - s).mT).unflatten(-1, (-1, 2)))
            return torch.view_as_real(pairs * turns).flatten(-2)

        return F.scaled_dot_product_attention(turned(q), turned(k), v)

    shape = (2, heads, 7, dim)
    return Case(
        f"{heads} heads of {dim}, {axes} coordinates",
        with_parameters,
        theirs,
        [
            torch.randn(dim, dim, dtype=torch.float64),
            torch.randn(axes, heads, dim // 2, dtype=torch.float64),
            *(torch.randn(shape, dtype=torch.float64) for _ in range(3)),
        ],
    )


class _Ours(nn.Module):
    """Attention as a module, so that functional_call can put parameters in."""

    def __init__(self, encoding: CayleySTRING, positions: Positions) -> None:
        super().__init__()
        self.encoding, self.positions = encoding, positions

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, self.encoding, positions=self.positions)
