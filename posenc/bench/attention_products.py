"""What attention cannot leave out: its matrix products, by torch, with nothing between them."""

import torch

from posenc.bench.attention_encodings import BUCKETS
from posenc.bench.attention_inputs import AttentionInputs, AttentionSetting
from posenc.bench.case import Call
from posenc.native.library import LIBRARY

PRODUCTS = "its matrix products alone"
# Queries at a time: with causality they are multiplied with the keys up to the last of them.
BLOCK = 128


def vectors(setting: AttentionSetting) -> tuple[int, ...]:
    """How many vectors by distance each token is multiplied with, for each table of them.

    Transformer-XL has one for each key. DeBERTa has one for each bucket, behind and ahead, of which
    queries meet one table and keys another.
    """
    if setting.encoding == "deberta":
        return (2 * BUCKETS,) * 2
    return (setting.length,) if setting.encoding == "transformer_xl" else ()


def products(inputs: AttentionInputs) -> Call:
    """Queries with keys and weights with values, and tokens with vectors by distance; in training
    five products more, and three of vectors.

    The backward pass makes the scores anew, for weights that are kept grow with the square of the
    length. Where the processor multiplies no bfloat16, those of float32 stand in, as torch would
    take 30 times as long and attention widens its numbers.
    """
    setting = inputs.setting
    q, k, v, grad = (x.detach() for x in (inputs.q, inputs.k, inputs.v, inputs.grad))
    if isinstance(LIBRARY, str) or LIBRARY.instruction_set != "avx512bf16":
        q, k, v, grad = (x.float() for x in (q, k, v, grad))
    tables = [torch.randn_like(q[..., :1, :].expand(-1, -1, n, -1)) for n in vectors(setting)]
    blocks = []
    for start in range(0, setting.length, BLOCK):
        stop = min(start + BLOCK, setting.length)
        seen = slice(stop if setting.causal else None)
        near = [table[..., seen, :] for table in tables]
        of_queries = q[..., start:stop, :], grad[..., start:stop, :]
        blocks.append((*of_queries, k[..., seen, :], v[..., seen, :], near))

    def call() -> None:
        for own, _, keys, values, near in blocks:
            _ = own @ keys.mT @ values
            _ = [own @ table.mT for table in near]
        for own, given, keys, values, near in blocks if setting.training else ():
            scores, weights = own @ keys.mT, given @ values.mT
            _ = scores.mT @ given, weights @ keys, weights.mT @ own
            for table in near:
                met = own @ table.mT
                _ = met @ table, met.mT @ own

    return call
