from collections.abc import Iterator
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Encoding, Tags
from posenc.encodings._absolute import Absolute, Merge
from posenc.errors import SettingError, one_of, positive, whole
from posenc.positions import Positions


class Sinusoidal(Absolute):
    """Sines and cosines of geometric wavelengths, added to the embeddings.

        PE[pos, 2i] = sin(pos * f[i]),   PE[pos, 2i+1] = cos(pos * f[i])
        f[i] = base**(-2i/dim)                     denominator "paper"
        f[i] = base**(-i/max(dim//2 - 1, 1))       denominator "tensor2tensor"

    layout "interleaved" is the paper's; "half" puts all sines before all cosines, as most code
    does. tensor2tensor's denominators, also those of fairseq, come in layout "half" only. Positions
    are in tokens, f in radians per token. Of an odd dim the paper's formula leaves the last sine
    without its cosine, in both layouts; tensor2tensor makes the last column zero. merge "multiply"
    is x * (1 + PE), "hadamard" x * PE, "concat" puts PE beside x. Raises SettingError for dim < 1,
    for dim < 2 with tensor2tensor's denominators, and for these in layout "interleaved".

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5; tensor2tensor,
    get_timing_signal_1d.
    """

    name = "sinusoidal"
    paper = "arXiv:1706.03762"
    tags = Tags()

    def __init__(
        self,
        dim: int,
        base: float = 10_000.0,
        layout: Literal["interleaved", "half"] = "interleaved",
        denominator: Literal["paper", "tensor2tensor"] = "paper",
        merge: Merge = "add",
    ) -> None:
        whole("Sinusoidal", dim=dim)
        positive("Sinusoidal", base=base)
        super().__init__(dim, merge)
        one_of("Sinusoidal", ("interleaved", "half"), layout=layout)
        one_of("Sinusoidal", ("paper", "tensor2tensor"), denominator=denominator)
        if denominator == "tensor2tensor" and (layout != "half" or dim < 2):
            raise SettingError(
                f"Sinusoidal(dim={dim}, layout={layout!r}, denominator='tensor2tensor'): "
                "tensor2tensor puts all sines before all cosines, one of each at least: "
                "pass layout='half' and dim >= 2"
            )
        self.dim, self.base, self.layout, self.denominator = dim, base, layout, denominator

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16)
        yield cls(16, base=500.0, layout="half", merge="multiply")
        yield cls(16, merge="hadamard")
        yield cls(9, merge="concat")
        yield cls(7, layout="half", denominator="tensor2tensor", merge="concat")

    def frequencies(self, device: torch.device | None = None) -> Float64[Tensor, "r"]:
        """Radians per token of each sine."""
        if self.denominator == "paper":
            sines, last = (self.dim + 1) // 2, self.dim / 2
        else:
            sines, last = self.dim // 2, max(self.dim // 2 - 1, 1)
        return self.base ** (-torch.arange(sines, dtype=torch.float64, device=device) / last)

    def table(self, positions: Tensor) -> Float64[Tensor, "#b t c"]:
        """PE at these positions, in float64."""
        tokens = positions.double().view(-1, positions.shape[-1], 1)
        angle = tokens * self.frequencies(positions.device)
        waves = (angle.sin(), angle.cos())
        if self.layout == "interleaved":
            return torch.stack(waves, dim=-1).flatten(-2)[..., : self.dim]
        table = torch.cat(waves, dim=-1)[..., : self.dim]
        return F.pad(table, (0, self.dim - table.shape[-1]))

    def vectors(self, positions: Positions) -> Float64[Tensor, "#b t c"]:
        return self.table(self.coordinates(positions)[..., 0])

    def reference_vectors(self, positions: Float64[Tensor, "b t"]) -> Float64[Tensor, "b t c"]:
        p = positions.new_zeros(*positions.shape, self.dim)
        paper = self.denominator == "paper"
        sines = self.dim - self.dim // 2 if paper else self.dim // 2
        for i in range(sines):
            exponent = 2 * i / self.dim if paper else i / max(sines - 1, 1)
            angle = positions / self.base**exponent
            at_sin, at_cos = (2 * i, 2 * i + 1)
            if self.layout == "half":
                at_sin, at_cos = (i, i + sines)
            p[..., at_sin] = torch.sin(angle)
            if at_cos < self.dim:
                p[..., at_cos] = torch.cos(angle)
        return p
