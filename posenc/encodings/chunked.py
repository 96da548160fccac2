from collections.abc import Iterator

import torch

from posenc.encoding import Context, Encoding, Pairs, Tags, Visible
from posenc.errors import whole
from posenc.mask_rules import Chunk
from posenc.positions import Positions
from posenc.terms import Mask, Term


class Chunked(Encoding):
    """Each token sees its own chunk of `width` tokens and no other: a mask, not a position.

        visible[i, j] = (i // width = j // width), and j <= i if causal

    in token order, which each document counts from 0. The first token of a chunk sees itself alone,
    the last all of it, and nothing passes from chunk to chunk but by other layers. Sinks open no
    chunk. Of several chunked masks the narrowest holds. Raises SettingError for width < 1.

    Source: Meta 2025, Llama 4 (https://ai.meta.com/blog/llama-4-multimodal-intelligence/), as in
    the code of transformers, whose chunks of a packed row count from the first token of the row
    where the model has a cache, and from that of each document where it has none.
    """

    name = "chunked"
    family = "mask"
    paper = "https://ai.meta.com/blog/llama-4-multimodal-intelligence/"
    tags = Tags(norm_preserving=True)

    def __init__(self, width: int) -> None:
        super().__init__()
        whole("Chunked", width=width)
        self.width = width

    @classmethod
    def for_model(cls, *, train_length: int, **_: object) -> Encoding:
        return cls(max(1, train_length // 2))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(3)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        return (Mask(Chunk(self.width)),)

    def reference_visible(self, at: Pairs) -> Visible:
        q, k = at.orders()
        return (q / self.width).floor() == (k / self.width).floor()
