from collections.abc import Iterator

import torch

from posenc.encoding import Context, Encoding, Tags
from posenc.errors import positive
from posenc.positions import Positions
from posenc.terms import Mask, Sink, Term


class Sinks(Encoding):
    """The first `count` tokens of a document stay visible in spite of a window.

        visible[i, j] = (in the window) or order[j] < count

    Without a window everything is visible already. Give it beside one:
    attend(q, k, v, [rope, SlidingWindow(256), Sinks(4)]). Raises SettingError for count < 1.

    Source: Xiao et al. 2024, arXiv:2309.17453, section 3.2.
    """

    name = "sinks"
    family = "mask"
    paper = "arXiv:2309.17453"
    tags = Tags(norm_preserving=True, comparable="it changes nothing without a window")

    def __init__(self, count: int = 4) -> None:
        super().__init__()
        positive("Sinks", count=count)
        self.count = count

    @classmethod
    def for_model(cls, **_: object) -> Encoding:
        return cls()

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(2)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        return (Mask(Sink(self.count)),)
