from collections.abc import Iterator

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Context, Encoding, Pairs, Visible
from posenc.encodings._rotary import TwoZones
from posenc.errors import whole
from posenc.mask_rules import Sink, Window
from posenc.positions import Positions
from posenc.terms import Layout, Mask, Term


class LMInfinite(TwoZones):
    """A Lambda-shaped mask over RoPE: the last `window` tokens and the first few, never farther.

        visible[m, n] = m - n < window or n < sinks
        score = scale * q[m] . R[-min(m - n, window)] k[n],   turning as in Rotary

    so that a model trained on `window` tokens meets neither more tokens nor larger distances. The
    paper finds 10 to 100 sinks alike. Both count tokens of the document, also where explicit
    positions leave gaps, by which distances in the window are larger. Causal only; decoding needs
    Cache("raw"). Raises SettingError for an odd dim, window < 1 or sinks < 1.

    Source: Han et al. 2024, arXiv:2308.16137, section 4.
    """

    name = "lm_infinite"
    paper = "arXiv:2308.16137"

    def __init__(
        self,
        dim: int,
        window: int,
        sinks: int = 10,
        base: float = 10_000.0,
        layout: Layout = "half",
    ) -> None:
        super().__init__(dim, window, base, layout)
        whole("LMInfinite", window=window, sinks=sinks)
        self.sinks = sinks

    @classmethod
    def for_model(cls, *, head_dim: int, train_length: int, **_: object) -> Encoding:
        return cls(head_dim, window=train_length)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, window=4, sinks=2)
        yield cls(12, window=3, sinks=1, base=500.0, layout="interleaved")

    def far(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return torch.full_like(q, self.window), torch.zeros_like(k)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        zones = super().lower(positions, context, dtype=dtype)
        return *zones, Mask(Window(self.window)), Mask(Sink(self.sinks))

    def reference_back(self, at: Pairs) -> Float64[Tensor, "b 1 tq tk"]:
        return torch.where(self.near(at), -at.distance(), self.window)

    def reference_visible(self, at: Pairs) -> Visible:
        q, k = at.orders()
        return (k > q - self.window) | (k < self.sinks)
