from collections.abc import Iterator

import torch

from posenc.encoding import Context, Encoding, Pairs, Tags, Visible
from posenc.errors import whole
from posenc.mask_rules import Window
from posenc.positions import Positions
from posenc.terms import Mask, Term


class SlidingWindow(Encoding):
    """Each token sees the `width` nearest ones, itself included: a mask, not a position.

        visible[i, j] = 0 <= i - j < width if causal, else |i - j| < width

    in token order. Of several windows the narrowest holds. Raises SettingError for width < 1.

    Source: Beltagy et al. 2020, arXiv:2004.05150; Mistral 7B, arXiv:2310.06825, section 2.
    """

    name = "window"
    family = "mask"
    paper = "arXiv:2004.05150"
    tags = Tags(translation_invariant=True, norm_preserving=True)

    def __init__(self, width: int) -> None:
        super().__init__()
        whole("SlidingWindow", width=width)
        self.width = width

    @classmethod
    def for_model(cls, *, train_length: int, **_: object) -> Encoding:
        return cls(max(1, train_length // 2))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(3)
        yield cls(1)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        return (Mask(Window(self.width)),)

    def reference_visible(self, at: Pairs) -> Visible:
        q, k = at.orders()
        return (q - self.width < k) & (k < q + self.width)
