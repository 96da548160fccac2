from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from posenc.encodings import Recurrent
from posenc.testing.agreement import Case, peer
from tests.peers._layers import set_alike


@peer("recurrent", "torch")
def rnn_without_input() -> Iterator[Case]:
    """nn.RNN, fed with zeros"""
    for dim, length in ((7, 1), (80, 17), (12, 150)):
        rnn: Any = nn.RNN(dim, dim).double()
        start = torch.zeros(dim, dtype=torch.float64, requires_grad=True)
        encoding = Recurrent(dim, length).double()
        weights = [
            set_alike(encoding.weight, rnn.weight_hh_l0),
            set_alike(encoding.bias, rnn.bias_hh_l0),
            set_alike(encoding.start, start),
        ]
        with torch.no_grad():
            rnn.bias_ih_l0.zero_()
            # A random map any larger is chaotic, and amplifies rounding.
            for leaf in weights[0]:
                leaf.mul_(dim**-0.5)

        def theirs(x: Tensor, rnn: Any = rnn, start: Tensor = start) -> Tensor:
            later, _ = rnn(torch.zeros_like(x[0]), start[None])
            return x + torch.cat((start[None], later[:-1]))

        yield Case(
            f"dim {dim}, length {length}",
            lambda x, encoding=encoding: encoding.embed(x, None),
            theirs,
            [torch.randn(2, length, dim, dtype=torch.float64)],
            weights,
        )
