from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.attention import attend
from posenc.encodings import Chunked
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer

HEADS, DIM = 3, 5


@peer("chunked", "transformers")
def masks_of_transformers() -> Iterator[Case]:
    """masking_utils' chunks of Llama 4: of several widths, left padded, fewer queries"""
    for length, width in ((1, 1), (13, 1), (13, 4), (13, 40)):
        plain = Positions.build(length, causal=True)
        yield _case(f"length {length}", width, plain)
    yield _case("3 of 13 queries", 4, Positions.build(3, 13, causal=True))
    real = torch.ones(2, 13, dtype=torch.bool)
    real[0, :5] = False
    yield _case("left padding", 4, Positions.build(attention_mask=real, causal=True), real)


def _case(name: str, width: int, positions: Positions, real: Tensor | None = None) -> Case:
    from transformers import masking_utils

    queries, length = positions.q_len, positions.k_len
    before = torch.zeros(2, dtype=torch.int64) if real is None else (~real).sum(-1)
    mask = masking_utils.sdpa_mask(
        2,
        queries,
        length,
        q_offset=length - queries,
        mask_function=masking_utils.chunked_causal_mask_function(width, before),
        attention_mask=real,
        allow_is_causal_skip=False,
    )
    # What padding says of others is nobody's concern.
    padding = ~mask.any(dim=-1, keepdim=True)

    def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = attend(q, k, v, Chunked(width), positions=positions, backend="reference")
        return out.masked_fill(padding, 0.0)

    def theirs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return out.masked_fill(padding, 0.0)

    sizes = (queries, length, length)
    inputs = [torch.randn(2, HEADS, size, DIM, dtype=torch.float64) for size in sizes]
    return Case(f"{name}, width {width}", ours, theirs, inputs)
