"""What attention cannot leave out: its multiplications, at the rate of square matrix products."""

import torch
from torch import Tensor

from posenc.bench.attention_encodings import BUCKETS, pairs
from posenc.bench.attention_inputs import AttentionInputs, AttentionSetting
from posenc.bench.case import Call
from posenc.native.library import LIBRARY

PRODUCTS = "as many multiplications in square products"
# Rows and columns: of what was tried, with these torch takes the least for each multiplication.
SIDE = 512


def vectors_met(setting: AttentionSetting) -> int:
    """How often a token of one head is multiplied with a vector by distance, at least.

    In Transformer-XL each pair has its vector. In DeBERTa queries meet one table and keys another,
    and each has a vector for every bucket, behind and ahead.
    """
    if setting.encoding == "deberta":
        return 2 * 2 * BUCKETS * setting.length
    return pairs(setting.length, setting.causal) if setting.encoding == "transformer_xl" else 0


def multiplications(setting: AttentionSetting) -> int:
    """How many numbers are multiplied in two products of tokens, queries with keys and weights with
    values, and one of vectors by distance; in training in five more, and three of vectors.

    The backward pass makes the scores anew, for weights that are kept grow with the square of the
    length.
    """
    of_tokens, of_vectors = (7, 4) if setting.training else (2, 1)
    met = pairs(setting.length, setting.causal)
    return setting.heads * setting.dim * (of_tokens * met + of_vectors * vectors_met(setting))


def square_products(count: int, dtype: torch.dtype) -> Call:
    """About `count` multiplications in square products, the last of them cut.

    Where the processor multiplies no bfloat16, those of float32 stand in, as torch would take 30
    times as long and attention widens its numbers.
    """
    if isinstance(LIBRARY, str) or not LIBRARY.reaches("avx512bf16"):
        dtype = torch.float32
    side = min(SIDE, max(round(count ** (1 / 3)), 1))
    x, y = torch.randn(2, side, side).to(dtype).unbind()
    whole, rest = divmod(round(count / side**2), side)
    lefts: list[Tensor] = [x] * whole + [x[:rest]] * (rest > 0)

    def call() -> None:
        for left in lefts:
            _ = left @ y

    return call


def products(inputs: AttentionInputs) -> Call:
    return square_products(multiplications(inputs.setting), inputs.q.dtype)
