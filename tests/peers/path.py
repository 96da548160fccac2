"""PaTH in the code of its authors, told again: it needs Triton and a GPU."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.attention import attend
from posenc.encoding import Context
from posenc.encodings import PaTH
from posenc.lowering import Part
from posenc.terms import Offset
from posenc.testing.agreement import Case, peer
from tests.peers._layers import joined, set_alike, split

WIDTH = 24


@peer("path", "torch")
def layer_of_fla() -> Iterator[Case]:
    """layers/path_attn.py of fla-org/flash-linear-attention, by its step of decoding"""
    yield _layer(heads=4, key_heads=4, length=13)
    yield _layer(heads=6, key_heads=2, length=1)
    # Its keys are more than a block of ours.
    yield _layer(heads=4, key_heads=2, length=70)


@peer("path", "torch")
def gated_layer_of_fla() -> Iterator[Case]:
    """layers/path_attn.py with use_forget_gate, of which it multiplies the logarithms by scale"""
    yield _layer(heads=4, key_heads=2, length=21, gated=True)


def _layer(heads: int, key_heads: int, length: int, gated: bool = False) -> Case:
    dim = WIDTH // heads
    encoding = PaTH(WIDTH, heads, dim, None if heads == key_heads else key_heads, rank=5).double()
    linear = {"bias": False, "dtype": torch.float64}
    q_proj = torch.nn.Linear(WIDTH, WIDTH, **linear)
    kv_proj = torch.nn.Linear(WIDTH, 2 * key_heads * dim, **linear)
    g_proj = torch.nn.Linear(WIDTH, heads, dtype=torch.float64)
    conv = torch.nn.Conv1d(key_heads * dim, key_heads * dim, 3, groups=key_heads * dim, **linear)
    down = torch.nn.Linear(WIDTH, 5, **linear)
    up = torch.nn.Linear(5, key_heads * dim, **linear)
    bt_proj = torch.nn.Linear(WIDTH, key_heads, dtype=torch.float64)

    def projected(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, v = kv_proj(x).chunk(2, dim=-1)
        return split(q_proj(x), heads), split(k, key_heads), split(v, key_heads)

    def gates(x: Tensor) -> Tensor:
        return F.logsigmoid(g_proj(x)).cumsum(1).mT

    def ours(x: Tensor) -> Tensor:
        parts: list[Part] = [encoding]
        if gated:
            total = dim**-0.5 * gates(x)
            parts.append(Offset(total, -total))
        return joined(attend(*projected(x), parts, causal=True, context=Context(x)))

    def theirs(x: Tensor) -> Tensor:
        """Token by token, as it decodes: the keys that it holds are multiplied at each."""
        q, k, v = projected(x)
        w = F.silu(conv(F.pad(up(down(x)).mT, (2, 0)))).mT
        w = w.unflatten(-1, (key_heads, dim))
        w = w / (w.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        beta = bt_proj(x).sigmoid() * 2
        held, outs, total = k[:, :, :0], [], gates(x)
        for t in range(x.shape[1]):
            at = w[:, t, :, None]
            far = (held * at).sum(-1, keepdim=True)
            held = held - beta[:, t, :, None, None] * far * at
            held = torch.cat((held, k[:, :, t : t + 1]), dim=2)
            keys, values = (
                y.repeat_interleave(heads // key_heads, dim=1) for y in (held, v[:, :, : t + 1])
            )
            logits = (q[:, :, t, None] * keys).sum(-1)
            if gated:
                logits = logits + total[:, :, t, None] - total[:, :, : t + 1]
            p = (dim**-0.5 * logits).softmax(-1)
            outs.append((p[..., None] * values).sum(2))
        return joined(torch.stack(outs, dim=2))

    return Case(
        f"{heads} heads of {dim}, {key_heads} of keys, length {length}",
        ours,
        theirs,
        [torch.randn(2, length, WIDTH, dtype=torch.float64)],
        [
            set_alike(encoding.get_parameter(name), other)
            for name, other in (
                ("down.weight", down.weight),
                ("up.weight", up.weight),
                ("mix", conv.weight),
                ("gate.weight", bt_proj.weight),
                ("gate.bias", bt_proj.bias),
            )
        ],
    )
