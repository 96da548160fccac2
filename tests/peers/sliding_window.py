from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.attention import attend
from posenc.encodings import SlidingWindow
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer

HEADS, DIM = 3, 5


@peer("window", "transformers")
def masks_of_transformers() -> Iterator[Case]:
    """masking_utils' sliding windows: causal, both ways, left padded, packed, fewer queries"""
    for length, width in ((1, 1), (13, 1), (13, 4), (13, 40)):
        plain = Positions.build(length, causal=True)
        yield _case(f"causal, length {length}", width, plain, _mask(length, width))
        both = Positions.build(length)
        yield _case(f"both ways, length {length}", width, both, _both_ways(length, width))
    fewer = Positions.build(3, 13, causal=True)
    yield _case("3 of 13 queries", 4, fewer, _mask(13, 4, queries=3))
    real = torch.ones(2, 13, dtype=torch.bool)
    real[0, :5] = False
    padded = Positions.build(attention_mask=real, causal=True)
    yield _case("left padding", 4, padded, _mask(13, 4, real=real))
    documents = torch.tensor([[0] * 6 + [1] * 7, [0] * 1 + [1] * 12])
    packed = Positions.build(documents=documents, causal=True)
    yield _case("packed documents", 4, packed, _mask(13, 4, documents=documents))


@peer("window", "attn-gym")
def window_of_attention_gym() -> Iterator[Case]:
    """generate_sliding_window, which looks back `window_size` tokens besides the token itself"""
    from attn_gym.masks import generate_sliding_window
    from torch.nn.attention.flex_attention import create_mask

    for length, back in ((1, 1), (13, 0), (13, 3), (13, 40)):
        rule = generate_sliding_window(back)
        mask = create_mask(rule, 1, 1, length, length, device="cpu")
        at = Positions.build(length, causal=True)
        yield _case(f"{back} back, length {length}", back + 1, at, mask)


def _mask(
    length: int,
    width: int,
    queries: int | None = None,
    real: Tensor | None = None,
    documents: Tensor | None = None,
) -> Tensor:
    from transformers import masking_utils

    rule = masking_utils.sliding_window_causal_mask_function(width)
    if documents is not None:
        of_one = masking_utils.packed_sequence_mask_function(documents)
        rule = masking_utils.and_masks(rule, of_one)
    queries = length if queries is None else queries
    return masking_utils.sdpa_mask(
        2,
        queries,
        length,
        q_offset=length - queries,
        mask_function=rule,
        attention_mask=real,
        allow_is_causal_skip=False,
    )


def _both_ways(length: int, width: int) -> Tensor:
    from transformers import masking_utils

    # Their width counts the tokens on one side, ours includes the token itself.
    rule = masking_utils.sliding_window_bidirectional_mask_function(width - 1)
    return masking_utils.sdpa_mask(
        2, length, length, mask_function=rule, allow_is_causal_skip=False
    )


def _case(name: str, width: int, positions: Positions, mask: Tensor) -> Case:
    """Attention under a mask that the peer made, True where a key is seen."""
    lengths = (positions.q_len, positions.k_len, positions.k_len)
    window = SlidingWindow(width)
    # What padding says of others is nobody's concern.
    padding = ~mask.any(dim=-1, keepdim=True)

    def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = attend(q, k, v, window, positions=positions, backend="reference")
        return out.masked_fill(padding, 0.0)

    def theirs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return out.masked_fill(padding, 0.0)

    inputs = [torch.randn(2, HEADS, length, DIM, dtype=torch.float64) for length in lengths]
    return Case(f"{name}, width {width}", ours, theirs, inputs)
