from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from posenc.encoding import Encoding, Tags, embedding_positions
from posenc.encodings._merge import Merge, check_merge, merged
from posenc.errors import SettingError, even, positive
from posenc.positions import Positions, one_axis


class Sinusoidal(Encoding):
    """Sines and cosines of geometric wavelengths, added to the embeddings.

        PE[pos, 2i] = sin(pos * base**(-2i/dim)),   PE[pos, 2i+1] = cos(pos * base**(-2i/dim))

    layout "interleaved" is the paper's; "half" puts all sines before all cosines. Positions are in
    tokens, wavelengths run from 2 pi to 2 pi * base. merge "multiply" is x * (1 + PE), "concat"
    puts PE beside x. Raises SettingError for an odd or non-positive dim.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
    """

    name = "sinusoidal"
    family = "absolute"
    paper = "arXiv:1706.03762"
    tags = Tags()

    def __init__(
        self,
        dim: int,
        base: float = 10_000.0,
        layout: Literal["interleaved", "half"] = "interleaved",
        merge: Merge = "add",
    ) -> None:
        super().__init__()
        self.dim = even("Sinusoidal", "dim", dim)
        positive("Sinusoidal", base=base)
        if layout not in ("interleaved", "half"):
            raise SettingError(f"Sinusoidal(layout={layout!r}): 'interleaved' or 'half'")
        check_merge("Sinusoidal", merge)
        self.base, self.layout, self.merge = base, layout, merge
        self.model_dim = None if merge == "concat" else dim

    @classmethod
    def for_model(cls, *, model_dim: int, **_: object) -> Encoding:
        return cls(model_dim)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16)
        yield cls(16, base=500.0, layout="half")
        yield cls(16, merge="multiply")
        yield cls(8, merge="concat")

    def embedded_width(self, dim: int) -> int:
        return dim + self.dim if self.merge == "concat" else dim

    def table(self, positions: Tensor) -> Float64[Tensor, "#b t c"]:
        """PE at these positions, in float64."""
        pairs = torch.arange(0, self.dim, 2, dtype=torch.float64, device=positions.device)
        frequency = self.base ** (-pairs / self.dim)
        angle = positions.double().view(-1, positions.shape[-1], 1) * frequency
        waves = (angle.sin(), angle.cos())
        if self.layout == "half":
            return torch.cat(waves, dim=-1)
        return torch.stack(waves, dim=-1).flatten(-2)

    def embed(
        self, x: Float[Tensor, "b t c"], positions: Positions | Tensor | None, *, layer: int = 0
    ) -> Float[Tensor, "b t c_out"]:
        at = one_axis(embedding_positions(self, x, positions).q, "Sinusoidal")
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        return merged(x, self.table(at).to(dtype), self.merge)

    def reference_embed(
        self, x: Float64[Tensor, "b t c"], positions: Float64[Tensor, "b t"]
    ) -> Float64[Tensor, "b t c_out"]:
        p = x.new_zeros(*positions.shape, self.dim)
        for i in range(self.dim // 2):
            angle = positions / self.base ** (2 * i / self.dim)
            at_sin, at_cos = (2 * i, 2 * i + 1)
            if self.layout == "half":
                at_sin, at_cos = (i, i + self.dim // 2)
            p[..., at_sin], p[..., at_cos] = torch.sin(angle), torch.cos(angle)
        if self.merge == "concat":
            return torch.cat((x, p), dim=-1)
        return x + p if self.merge == "add" else x + x * p
