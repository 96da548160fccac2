"""Vectors of positions, in place of a model's learned table."""

from typing import Any

import torch
from torch import Tensor, nn

from posenc.encoding import Encoding
from posenc.errors import UnsupportedError
from posenc.positions import Positions, Tokens


class Vectors(nn.Module):
    """What a table of positions returns for position_ids (b, t): vectors (b, t, c), or zeros.

    Raises UnsupportedError for an encoding that does not add its vectors to embeddings.
    """

    def __init__(self, encoding: Encoding | None, replaced: nn.Embedding) -> None:
        super().__init__()
        # In a plain list, for what is learned belongs to the whole model.
        self.encodings = [] if encoding is None else [encoding]
        self.width = replaced.embedding_dim
        self.like = nn.Buffer(replaced.weight.new_zeros(()), persistent=False)
        if encoding is None:
            return
        zeros = torch.zeros(1, 2, self.width)
        with torch.no_grad():
            apart = encoding.embed(zeros + 1, None) - encoding.embed(zeros, None)
        if apart.shape != zeros.shape or not torch.allclose(apart, zeros + 1, atol=1e-5):
            raise UnsupportedError(
                f"attach: {encoding!r} does not add its vectors to embeddings, and the model's "
                "code does nothing else"
            )

    def forward(self, *told: Any, position_ids: Tensor | None = None) -> Tensor:
        # Most tables are given position_ids alone, OPT's by name behind its mask.
        ids = told[0] if position_ids is None else position_ids
        x = self.like.new_zeros(*ids.shape, self.width)
        # Padding is at -1 in OPT.
        tokens = Tokens(ids.long().clamp(min=0))
        extent = None if torch.compiler.is_compiling() else int(ids.max()) + 1
        for encoding in self.encodings:
            x = encoding.embed(x, Positions(tokens, tokens, extent=extent))
        return x
