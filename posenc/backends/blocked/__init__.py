"""Some queries of some heads at a time in PyTorch: every term, any device, linear memory.

Each chunk of queries meets the keys that some of it may see, and a gradient computes the weights
of a chunk again instead of keeping them. Where distances run along the diagonals of the scores,
tables are read as vectors over the distance, without an index matrix.
"""

import torch
from torch import Tensor

from posenc.backends.backend import Backend, Call
from posenc.terms import Householder
from posenc.torch_modes import device_type

# Scores that the reference computes faster at once, measured on CPUs; on a GPU an estimate.
_FEW = {"cpu": 2**20, "cuda": 2**24}
_LONG, _MANY = 1024, 64


def attend(call: Call) -> Tensor:
    from posenc.backends.blocked.chunks import attend as by_chunks

    return by_chunks(call)


def with_lse(call: Call) -> tuple[Tensor, Tensor]:
    from posenc.backends.blocked.chunks import attend_with_lse

    return attend_with_lse(call)


def limits(call: Call) -> str | None:
    if torch.compiler.is_compiling():
        return "the number of chunks depends on the length, which a graph leaves open"
    if isinstance(call.form.rotation, Householder) and call.q.shape[2] > call.k.shape[2]:
        return "queries of a Householder must be among the keys"
    return None


def declines(call: Call) -> str | None:
    """Why `auto` leaves a call to others: of few scores, chunks cost more than they save."""
    if isinstance(call.form.rotation, Householder) and call.k.shape[2] > _MANY:
        # The reference solves one system of all tokens.
        return None
    b, h, q_len = call.q.shape[:3]
    size = b * h * q_len * call.k.shape[2]
    # Against a long cache whose keys are shared, it is the one that does not repeat them.
    shares = call.k.shape[1] < h and call.k.shape[2] > _LONG
    few = _FEW.get(device_type(call.q), _FEW["cpu"])
    return f"{size} scores are few" if size <= few and not shares else None


BACKEND = Backend(
    attend, transforms=False, onnx=False, limits=limits, declines=declines, with_lse=with_lse
)
