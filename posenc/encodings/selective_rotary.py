from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from posenc.encoding import Context, Encoding
from posenc.encodings._cumulated import CumulatedRotary
from posenc.encodings._rotary import geometric
from posenc.encodings._weights import linear_in_dtype
from posenc.errors import SettingError, one_of, positive, whole
from posenc.positions import Positions
from posenc.torch_modes import autocast_off


class SelectiveRotary(CumulatedRotary):
    """RoPE whose tokens tell how far each pair turns, in place of one step of position each.

        u[t] = x[t], its share of each head scaled to length 1
        phi[t] = up(down(u[t]))                                  rank numbers in between
        step[t, h, i] = sum over w < conv of kernel[h, i, w] * phi[t - conv + 1 + w, h, i]
        angle[t, h, i] = base**(-2i/head_dim) * sum over l <= t of gate[l, h] * step[l, h, i]

    In radians, for all head_dim/2 pairs. x is the input of the layer, of width dim (c): a call
    needs context=Context(x=...) and causal attention, and its queries are the last of the keys.
    gate is 1 or, with gate=True, sigmoid(w[h] . u[l] + b[h]). conv=1 leaves the convolution
    away, and step is phi; with more, it passes by padding, stops at documents, a cache keeps phi,
    and caches that leave tokens out and rings are refused. Steps are made and summed in float64.
    Raises SettingError for an odd head_dim, a dim that is no multiple of heads and settings <= 0,
    ShapeError for x of another width or of another number of tokens than the keys.

    Source: Movahedi et al. 2025, arXiv:2511.17388, and src/selective_rope/modules/rotary.py of the
    authors' timurcarstensen/selective-rope, whose released settings are rank=32, conv=4.
    """

    name = "selective_rotary"
    paper = "arXiv:2511.17388"

    def __init__(
        self,
        dim: int,
        heads: int,
        head_dim: int,
        rank: int = 16,
        conv: int = 4,
        gate: bool = False,
        base: float = 500_000.0,
    ) -> None:
        super().__init__(dim, heads, head_dim, None)
        whole("SelectiveRotary", rank=rank, conv=conv)
        positive("SelectiveRotary", base=base)
        one_of("SelectiveRotary", (False, True), gate=gate)
        if dim % heads:
            raise SettingError(
                f"SelectiveRotary(dim={dim}, heads={heads}): dim must be a multiple of heads"
            )
        self.rank, self.conv, self.gate, self.base = rank, conv, gate, base
        # A convolution reads the neighbours of a token, which sums of several have not.
        self.payload_adds = conv == 1
        self.down = nn.Linear(dim, rank, bias=False)
        self.up = nn.Linear(rank, heads * head_dim // 2, bias=False)
        self.opening = nn.Linear(dim, heads) if gate else None
        kernel = torch.empty(heads, head_dim // 2, conv).uniform_(-1, 1) * conv**-0.5
        self.kernel = nn.Parameter(kernel) if conv > 1 else None

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, heads=4, head_dim=4, rank=5, conv=1, gate=True, base=50.0)
        yield cls(24, heads=4, head_dim=6, rank=4, conv=3, gate=True, base=50.0)

    def payload(self, x: Float[Tensor, "b t c"]) -> Float[Tensor, "b h n t"]:
        """Steps or, where they are yet to be convolved, phi and then the gate."""
        x = self.read(x)
        with autocast_off(x.device):
            parts = x.unflatten(-1, (self.heads, -1))
            u = (parts * torch.rsqrt((parts * parts).sum(-1, keepdim=True) + 1e-6)).flatten(-2)
            phi = linear_in_dtype(linear_in_dtype(u, self.down), self.up)
            phi = phi.unflatten(-1, (self.heads, -1)).permute(0, 2, 3, 1)
            phi = phi * geometric(self.base, self.rotated_dim, x.device)[:, None]
            if self.opening is None:
                return phi
            gate = linear_in_dtype(u, self.opening).sigmoid().mT[:, :, None]
            return phi * gate if self.kernel is None else torch.cat((phi, gate), dim=2)

    def steps(self, positions: Positions, context: Context | None) -> Float[Tensor, "b h r tk"]:
        told = super().steps(positions, context)
        if self.kernel is None:
            return told
        phi, document = told[:, :, : self.rotated_dim // 2], positions.keys.document
        valid, count, place = positions.keys.valid, positions.k_len, None
        if document is not None:
            document = document.view(-1, count)
        if valid is not None:
            # The tokens before one may lie beyond padding: real ones are put side by side, and
            # padding behind them all, where it is left out.
            place = torch.where(valid, valid.long().cumsum(dim=-1) - 1, count)
            phi = _side_by_side(phi, place[:, None, None])
            document = None if document is None else _side_by_side(document, place)
        total = torch.zeros_like(phi)
        for back in range(self.conv):
            before = F.pad(phi, (back, 0))[..., :count]
            if document is not None and back:
                own = F.pad(document, (back, 0), value=-1)[:, :count] == document
                before = before.masked_fill(~own[:, None, None], 0.0)
            total = total + self.kernel[..., self.conv - 1 - back, None].to(phi.dtype) * before
        if place is not None:
            of_column = place[:, None, None].expand(*total.shape[:-1], count)
            total = F.pad(total, (0, 1)).gather(-1, of_column)
        return total if self.opening is None else total * told[:, :, -1:]

    def reference_steps(self, x: Tensor) -> Float[Tensor, "b h t r"]:
        assert self.heads is not None
        parts = x.view(*x.shape[:2], self.heads, -1)
        u = (parts / (parts.norm(dim=-1, keepdim=True) ** 2 + 1e-6) ** 0.5).flatten(-2)
        phi = u @ (self.up.weight @ self.down.weight).T
        phi = phi.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
        step = torch.zeros_like(phi)
        for t in range(x.shape[1]):
            for w in range(self.conv):
                at = t - self.conv + 1 + w
                if at >= 0:
                    factor = 1.0 if self.kernel is None else self.kernel[..., w].double()
                    step[:, :, t] += factor * phi[:, :, at]
        if self.opening is not None:
            step = step * torch.sigmoid(u @ self.opening.weight.T + self.opening.bias).mT[..., None]
        pairs = range(self.rotated_dim // 2)
        return step * x.new_tensor([self.base ** (-2 * i / self.rotated_dim) for i in pairs])


def _side_by_side(x: Tensor, place: Tensor) -> Tensor:
    """The number of each token at its place, zero where none is; beyond the last it is left out."""
    place, x = torch.broadcast_tensors(place, x)
    return F.pad(torch.zeros_like(x), (0, 1)).scatter(-1, place, x)[..., :-1]
