"""Small models that read a sentence, each in its own way: what permutation is measured on."""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc.encoding import Encoding
from posenc.model import Transformer


class GRUReader(nn.Module):
    """A recurrent network; what it says of a sentence (b, t) is its last state (b, dim).

    Source: Cho et al. 2014, arXiv:1406.1078.
    """

    def __init__(self, vocab_size: int, dim: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocab_size, dim)
        self.cell = nn.GRU(dim, dim, batch_first=True)

    def forward(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b c"]:
        return self.cell(self.token(tokens))[1][-1]


class TextCNN(nn.Module):
    """Convolutions of several widths, each with its maximum over time: (b, t) to (b, dim * widths).

    A sentence must be as long as the widest window.

    Source: Kim 2014, arXiv:1408.5882.
    """

    def __init__(self, vocab_size: int, dim: int, widths: tuple[int, ...] = (2, 3)) -> None:
        super().__init__()
        self.token = nn.Embedding(vocab_size, dim)
        self.windows = nn.ModuleList(nn.Conv1d(dim, dim, width) for width in widths)

    def forward(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b c"]:
        columns = self.token(tokens).mT
        return torch.cat([F.relu(window(columns)).amax(dim=-1) for window in self.windows], dim=-1)


class CNNReader(nn.Module):
    """Convolutions that keep the length; what they say of a sentence (b, t) is the mean (b, dim).

    padding is what they read beyond the border: "zeros", by which a token can tell how near the
    border is, or "circular", the other end of the sentence, by which it cannot. width is odd.

    Source: Islam et al. 2020, arXiv:2001.08248.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        depth: int = 2,
        width: int = 3,
        padding: Literal["zeros", "circular"] = "zeros",
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocab_size, dim)
        self.layers = nn.ModuleList(
            nn.Conv1d(dim, dim, width, padding=width // 2, padding_mode=padding)
            for _ in range(depth)
        )

    def states(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t c"]:
        """What the last layer says of each token."""
        columns = self.token(tokens).mT
        for layer in self.layers:
            columns = F.relu(layer(columns))
        return columns.mT

    def forward(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b c"]:
        return self.states(tokens).mean(dim=1)


class TransformerReader(nn.Module):
    """A posenc Transformer; what it says of a sentence is the mean over its tokens (b, vocab_size).

    causal makes it a decoder. Raises what Transformer raises for an encoding that does not fit.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        encoding: Encoding | None = None,
        *,
        heads: int = 4,
        depth: int = 2,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.model = Transformer(vocab_size, dim, depth, heads, encoding, causal=causal)

    def forward(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b vocab"]:
        return self.model(tokens).mean(dim=1)
