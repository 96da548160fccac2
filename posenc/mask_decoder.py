"""DeBERTa's decoder for masked tokens: absolute positions join at the last layers alone.

Letters: b batch, t tokens, c model dimension.
"""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from posenc.encoding import Encoding
from posenc.encoding_lists import fitting, owned
from posenc.encodings import Learned
from posenc.errors import given, probability, whole
from posenc.lowering import Lowerable, Lowered, Part, flatten, lower
from posenc.model import Block
from posenc.positions import Positions, as_positions
from posenc.torch_modes import arithmetic


class EnhancedMaskDecoder(nn.Module):
    """EMD: queries know where they are, keys and values are the encoder's output.

        query_0 = hidden + position[pos],   query_n = block(query_{n-1}, keys and values of hidden)

    One block serves all `passes`, 2 in the paper; the last query goes where the output of an
    encoder's last layer would, through a norm to the words. position is a `Learned` table of
    max_length rows; encoding is the relative part, as in `Attention`. Not causal, since a masked
    token is told from both sides. The authors' code takes for hidden the output of the encoder's
    last layer but one and for block its last layer, which normalises after the residual; `Block`
    normalises before. Raises SettingError for sizes below 1 or a dim that is not a multiple of
    heads, ShapeError for an encoding of other heads, PositionsError for positions beyond
    max_length.

    Example: `EnhancedMaskDecoder(64, 4, max_length=128, encoding=DeBERTa(64, 4))(hidden)`.

    Source: He et al. 2021, arXiv:2006.03654, section 3.2; query_0: the authors' code.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        max_length: int,
        encoding: Encoding | Sequence[Encoding] | None = None,
        *,
        passes: int = 2,
        kv_heads: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        sizes = {"dim": dim, "heads": heads, "max_length": max_length, "passes": passes}
        whole("EnhancedMaskDecoder", **sizes, **given(kv_heads=kv_heads))
        probability("EnhancedMaskDecoder", dropout=dropout)
        self.passes = passes
        self.position = Learned(dim, max_length)
        self.block = Block(dim, heads, kv_heads, causal=False, dropout=dropout)
        self.encodings = fitting(encoding, "EnhancedMaskDecoder", heads, dim // heads)

    def forward(
        self,
        hidden: Float[Tensor, "b t c"],
        encoding: Lowerable = None,
        *,
        positions: Positions | Tensor | None = None,
    ) -> Float[Tensor, "b t c"]:
        """The encoder's output, decoded; `encoding` stands in for one that the encoder owns."""
        relative: Lowerable = owned(self.encodings) if encoding is None else encoding
        if not isinstance(relative, Lowered):
            positions = as_positions(positions, hidden.shape[1], causal=False, device=hidden.device)
        if isinstance(relative, Lowered) or not any(map(_reads_layer, flatten(relative))):
            relative = lower(relative, positions, causal=False, dtype=arithmetic(hidden))
            positions = relative.positions
        query = self.position.embed(hidden, positions)
        for _ in range(self.passes):
            query = self.block(query, relative, positions, None, memory=hidden)
        return query


def _reads_layer(part: Part) -> bool:
    return isinstance(part, Encoding) and bool(part.tags.needs_context)
