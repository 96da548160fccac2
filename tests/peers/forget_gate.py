from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.attention import attend
from posenc.encoding import Context
from posenc.encodings import ForgetGate
from posenc.testing.agreement import Case, peer
from tests.peers._layers import joined, set_alike, split


@peer("forget_gate", "x-transformers")
def layer_of_x_transformers() -> Iterator[Case]:
    """Attention with data_dependent_alibi, the whole causal layer"""
    for flash in (False, True):
        yield _layer(heads=4, head_dim=8, length=17, flash=flash)
        yield _layer(heads=12, head_dim=80, length=1, flash=flash)
        # By the end of 200 tokens with gates near one half, the first ones are forgotten.
        yield _layer(heads=12, head_dim=80, length=200, flash=flash)


def _layer(heads: int, head_dim: int, length: int, flash: bool) -> Case:
    from x_transformers.x_transformers import Attention

    layer = Attention(
        dim=24,
        dim_head=head_dim,
        heads=heads,
        causal=True,
        flash=flash,
        data_dependent_alibi=True,
        # Its own softmax rounds to float32.
        custom_attn_fn=partial(F.softmax, dim=-1),
    ).double()
    linear_of_gates = layer.data_dependent_alibi.to_forget_gates[0]
    encoding = ForgetGate(24, heads).double()

    def ours(x: Tensor) -> Tensor:
        q, k, v = (split(linear(x), heads) for linear in (layer.to_q, layer.to_k, layer.to_v))
        out = attend(q, k, v, encoding, causal=True, context=Context(x))
        return layer.to_out(joined(out))

    return Case(
        f"{heads} heads of {head_dim}, length {length}, flash={flash}",
        ours,
        layer,
        [torch.randn(2, length, 24, dtype=torch.float64)],
        [
            set_alike(encoding.get_parameter("gate.weight"), linear_of_gates.weight),
            set_alike(encoding.get_parameter("gate.bias"), linear_of_gates.bias),
        ],
    )
