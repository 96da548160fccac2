from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc.attention import attend
from posenc.encoding import Context
from posenc.encodings import CABLE
from posenc.testing.agreement import Case, peer
from tests.peers._layers import set_alike


@peer("cable", "torch")
def scores_of_cable() -> Iterator[Case]:
    """What src/Cable.py of axiomlab/Cable does, written again: softmax with cumulated biases"""
    heads, length, head_dim = 4, 200, 8
    encoding, h_attn = CABLE(24, heads).double(), nn.Linear(24, heads).double()
    q, k, v = torch.randn(3, 2, heads, length, head_dim, dtype=torch.float64)

    def ours(x: Tensor) -> Tensor:
        return attend(q, k, v, encoding, causal=True, context=Context(x))

    def theirs(x: Tensor) -> Tensor:
        total = (-F.softplus(h_attn(x))).cumsum(1).mT
        bias = total[..., :, None] - total[..., None, :]
        hidden = torch.ones(length, length).triu(1).bool()
        s = q @ k.mT / head_dim**0.5 + bias
        return s.masked_fill(hidden, -torch.inf).softmax(-1) @ v

    yield Case(
        f"{heads} heads of {head_dim}, length {length}",
        ours,
        theirs,
        [torch.randn(2, length, 24, dtype=torch.float64)],
        [
            set_alike(encoding.get_parameter("gate.weight"), h_attn.weight),
            set_alike(encoding.get_parameter("gate.bias"), h_attn.bias),
        ],
    )
