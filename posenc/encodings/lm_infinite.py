from collections.abc import Iterator

import torch

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags, Visible
from posenc.encodings._turning import check_layout
from posenc.encodings._zones import rope_at, zones
from posenc.errors import even, positive, whole
from posenc.positions import Positions
from posenc.terms import Layout, Mask, Sink, Term, Window


class LMInfinite(Encoding):
    """A Lambda-shaped mask over RoPE: the last `window` tokens and the first few, never farther.

        visible[m, n] = m - n < window or n < sinks
        score = scale * q[m] . R[-min(m - n, window)] k[n],   turning as in Rotary

    so that a model trained on `window` tokens meets neither more tokens nor larger distances. The
    paper finds 10 to 100 sinks alike. Both count tokens of the document. Causal only; decoding
    needs Cache("raw"). Raises SettingError for an odd dim, window < 1 or sinks < 1.

    Source: Han et al. 2024, arXiv:2308.16137, section 4.
    """

    name = "lm_infinite"
    family = "rotary"
    paper = "arXiv:2308.16137"
    tags = Tags(causal_only=True, translation_invariant=True, norm_preserving=True)

    def __init__(
        self,
        dim: int,
        window: int,
        sinks: int = 10,
        base: float = 10_000.0,
        layout: Layout = "half",
    ) -> None:
        super().__init__()
        self.dim = self.head_dim = even("LMInfinite", "dim", dim)
        whole("LMInfinite", window=window, sinks=sinks)
        positive("LMInfinite", base=base)
        check_layout("LMInfinite", layout)
        self.window, self.sinks, self.base = window, sinks, base
        self.layout: Layout = layout

    @classmethod
    def for_model(cls, *, head_dim: int, train_length: int, **_: object) -> Encoding:
        return cls(head_dim, window=train_length)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, window=4, sinks=2)
        yield cls(12, window=3, sinks=1, base=500.0, layout="interleaved")

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        q, k = positions.one_axis("LMInfinite")
        far = torch.full_like(q, self.window), torch.zeros_like(k)
        rope = {"dim": self.dim, "base": self.base, "layout": self.layout}
        turned = zones(positions, far, self.window, **rope)
        return turned, Mask(Window(self.window)), Mask(Sink(self.sinks))

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        back = (-at.distance()).clamp(max=self.window)
        return at.scale * rope_at(q, k, back, base=self.base, layout=self.layout)

    def reference_visible(self, at: Pairs) -> Visible:
        q, k = at.orders()
        return (k > q - self.window) | (k < self.sinks)
