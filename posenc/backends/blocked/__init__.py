"""Memory that grows with the length and not with its square, in PyTorch alone, on any device.

Queries come in tiles, each against the keys that it can see; a gradient computes the weights of a
tile again instead of keeping them. Where distances run along the diagonals of the scores, which
plain, padded and packed tokens have, tables are read as vectors of one dimension and
their gradients are sums over diagonals, always in the same order (`tiles`). Every other call is
the equation itself, some queries at a time (`by_rows`).
"""

import torch
from torch import Tensor

from posenc.backends.blocked import by_rows, distances
from posenc.backends.call import Call
from posenc.eager import transformed
from posenc.equation import check_distances, check_heads

_FEW, _LONG = 2**20, 1024


def refusal(call: Call) -> str | None:
    if torch.onnx.is_in_onnx_export():
        return "ONNX knows no operator of its kind"
    if not torch.compiler.is_compiling() and transformed():
        return "transforms of torch.func and forward-mode gradients need PyTorch's own operators"
    # The number of tiles depends on the length, which a graph leaves open.
    return distances.refusal(call) if torch.compiler.is_compiling() else None


def passed_over(call: Call) -> str | None:
    """Why `auto` leaves a call to others: of few scores, tiles cost more than they save."""
    if torch.compiler.is_compiling():
        return None
    b, h, q_len = call.q.shape[:3]
    size = b * h * q_len * call.k.shape[2]
    # Against a long cache whose keys are shared, it is the one that does not repeat them.
    shares = call.k.shape[1] < h and call.k.shape[2] > _LONG
    return f"{size} scores are few" if size <= _FEW and not shares else None


def attend(call: Call) -> Tensor:
    from posenc.backends.blocked import op

    if distances.refusal(call) is not None:
        return by_rows.attend(call)
    check_heads(call.lowered.terms, call.q.shape[1])
    check_distances(call.lowered.terms, call.lowered.positions)
    return op.attend(distances.inputs_of(call))
