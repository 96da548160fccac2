"""The equation itself, in quadratic memory: computes every combination of terms."""

import torch.nn.functional as F
from torch import Tensor

from posenc.backends.backend import Backend, Call
from posenc.equation import output_of, scores_of, weights_of


def attend(call: Call) -> Tensor:
    p = weights_of(scores_of(call.q, call.k, call.lowered, call.scale))
    if call.dropout:
        p = F.dropout(p, call.dropout)
    return output_of(p, call.v, call.lowered).to(call.v.dtype)


BACKEND = Backend(attend)
