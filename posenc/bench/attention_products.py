"""What attention cannot leave out: its matrix products, by torch, with nothing between them."""

from posenc.bench.attention_inputs import AttentionInputs
from posenc.bench.case import Call

PRODUCTS = "its matrix products alone"
# Queries at a time: with causality they are multiplied with the keys up to the last of them.
BLOCK = 128


def products(inputs: AttentionInputs) -> Call:
    """Queries with keys and weights with values; in training five products more.

    The backward pass makes the scores anew, for weights that are kept grow with the square of the
    length.
    """
    setting = inputs.setting
    q, k, v, grad = (x.detach() for x in (inputs.q, inputs.k, inputs.v, inputs.grad))
    blocks = []
    for start in range(0, setting.length, BLOCK):
        stop = min(start + BLOCK, setting.length)
        seen = slice(stop if setting.causal else setting.length)
        blocks.append(
            (q[..., start:stop, :], grad[..., start:stop, :], k[..., seen, :], v[..., seen, :])
        )

    def call() -> None:
        for own, _, keys, values in blocks:
            _ = own @ keys.mT @ values
        for own, given, keys, values in blocks if setting.training else ():
            scores, weights = own @ keys.mT, given @ values.mT
            _ = scores.mT @ given, weights @ keys, weights.mT @ own

    return call
