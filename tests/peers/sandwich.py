from collections.abc import Iterator

import torch

from posenc.attention import attend
from posenc.attention_parts import scores
from posenc.encodings import Sandwich
from posenc.equation import weights_of
from posenc.testing.agreement import Case, peer
from tests.peers._wide import in_float64


@peer("sandwich", "attn-gym")
def score_mod_of_attention_gym() -> Iterator[Case]:
    """generate_sandwich_bias in float64, its scores and the attention that they give"""
    for heads, dim, length in ((12, 128, 150), (12, 128, 1), (5, 10, 17)):
        for causal in (True, False):
            yield from _cases(heads, dim, length, causal)


def _cases(heads: int, dim: int, length: int, causal: bool) -> Iterator[Case]:
    from attn_gym.mods import generate_sandwich_bias

    at = torch.arange(length)
    with in_float64():
        add = generate_sandwich_bias(heads, length, dim)
    bias = add(torch.zeros(()), None, torch.arange(heads).view(-1, 1, 1), at[:, None], at)
    hidden = (at[:, None] < at) & causal
    q, k, v = (torch.randn(2, heads, length, 20, dtype=torch.float64) for _ in range(3))
    name = f"{heads} heads, dim {dim}, length {length}, causal={causal}"
    plain, centered = (Sandwich(heads, dim, centered=centered) for centered in (False, True))
    yield Case(
        f"scores, {name}",
        lambda q, k: scores(q, k, plain, causal=causal).masked_fill(hidden, 0.0),
        lambda q, k: (q @ k.mT / 20**0.5 + bias).masked_fill(hidden, 0.0),
        (q, k),
    )
    # The peer leaves dim/2 in, which attention cannot see.
    yield Case(
        f"attention, {name}",
        lambda q, k, v: attend(q, k, v, centered, causal=causal),
        lambda q, k, v: weights_of((q @ k.mT / 20**0.5 + bias).masked_fill(hidden, -torch.inf)) @ v,
        (q, k, v),
    )
