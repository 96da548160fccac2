"""The equation itself, in quadratic memory: computes every combination of terms."""

import torch.nn.functional as F
from torch import Tensor

from posenc.backends.backend import Backend, Call
from posenc.equation import lse_of, output_of, scores_of, sink_of, weights_of


def attend(call: Call) -> Tensor:
    return _output(call, scores_of(call.q, call.k, call.lowered, call.scale))


def with_lse(call: Call) -> tuple[Tensor, Tensor]:
    scores = scores_of(call.q, call.k, call.lowered, call.scale)
    return _output(call, scores), lse_of(scores, sink_of(call.lowered.terms))


def _output(call: Call, scores: Tensor) -> Tensor:
    p = weights_of(scores, sink_of(call.lowered.terms))
    if call.dropout:
        p = F.dropout(p, call.dropout)
    return output_of(p, call.v, call.lowered).to(call.v.dtype)


BACKEND = Backend(attend, with_lse=with_lse, reads_terms=True)
