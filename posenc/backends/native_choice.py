"""From where on `auto` takes the C kernels of what they can compute, as measured beside SDPA.

They take what would else need a matrix of scores, a single query, which reads keys where they lie,
and plain attention that is large enough to pay for packing them; smaller calls, a few queries and
small windows of a grid stay with SDPA.
"""

import torch
from torch import Tensor

from posenc.backends.backend import Call, dtype_of, hides_most, slow_in_sdpa
from posenc.native.library import LIBRARY
from posenc.normal_form.features import Feature
from posenc.terms import Zones

# What leaves nothing to add to scores; torch 2.7 traces no frozen set of the outside.
BARE = (Feature.ROTATION, Feature.POLAR, Feature.QUERY_SCALE)
# With fewer queries, packing the keys costs more than what the kernel saves; one packs none. Where
# heads share keys, SDPA takes them as rows of one product, which is faster but in 16 bits.
FEW_QUERIES, FEW_SHARING = 8, 12
# The same where there are more keys, as in a cache, in float32 and bfloat16 with less than AVX-512,
# of what SDPA can add as a mask: it takes large masks for up to 16 queries alone, and packing pays
# from 40 on.
_FEW_BESIDE_CACHE = 17
_NO_MASK = {Feature.VECTORS, Feature.OWN_VECTORS, Feature.VALUE_VECTORS, Feature.COUNTS}
HALVES = torch.bfloat16, torch.float16
# Queries for each head that shares keys which pay for packing where SDPA needs a mask, beside which
# it is slow in 16 bits; in bfloat16 with AVX-512, and fewer where its vectors multiply bfloat16.
_MASKED: dict[torch.dtype | None, int] = {torch.bfloat16: 2, torch.float16: 0}
_MASKED_IN_PAIRS = 1
# Where heads share keys and both multiply in a matrix unit, whose squares those rows of one product
# fill, SDPA is the faster with fewer queries, in spite of its mask.
_FEW_IN_SQUARES = 24
# Of plain attention, for which SDPA makes no mask: queries, and pairs of all heads, that pay for
# packing there; more pairs do where there are gradients, and fewer queries in float16.
_PLAIN, _LEARNING = (32, 2**13), (32, 2**15)
_PLAIN_IN: dict[torch.dtype | None, tuple[int, int]] = {
    torch.bfloat16: (32, 2**13),
    torch.float16: (FEW_QUERIES, 2**11),
}
# The same with dropout, for which SDPA keeps all weights.
_DROPPED_QUERIES = 16
# Tokens of a window that are worth tiles in more than 16 bits: SDPA reads the bias of all pairs,
# which is made once for all layers, and slowly where that has a gradient.
_WINDOW, _WINDOW_LEARNING = 196, 49


def few_beside_cache(call: Call) -> int:
    """From how many queries on packing the keys of a cache pays; 0: as without a cache."""
    if _learns(call.q, call.k, call.v) or not _NO_MASK.isdisjoint(call.form.features):
        return 0
    if _fills_squares(call):
        return _FEW_IN_SQUARES
    dtype = dtype_of(call.q, call.k)
    narrow = dtype in (torch.float32, torch.bfloat16) and not _is_wide()
    return _FEW_BESIDE_CACHE if narrow else 0


def plain_reason(call: Call) -> str | None:
    """Why plain attention is left to SDPA, or None where it is large."""
    if torch.compiler.is_exporting():
        # An exported graph keeps its lengths open, and would be bound by a comparison.
        return "attention without bias and mask is left to SDPA in an exported graph"
    batch, heads, queries, _ = call.q.shape
    if call.dropout and queries >= _DROPPED_QUERIES:
        return None
    if dtype_of(call.q, call.k) == torch.bfloat16 and _lacks_matrix_unit():
        return (
            "attention without bias and mask is left to SDPA in bfloat16, which it multiplies in a "
            "matrix unit (AMX) that these kernels do not use"
        )
    usual = _LEARNING if _learns(call.q, call.k, call.v) else _PLAIN
    least, pairs = _PLAIN_IN.get(dtype_of(call.q, call.k), usual)
    if queries < least or batch * heads * queries * call.k.shape[2] < pairs:
        return (
            "attention without bias and mask is left to SDPA under "
            f"{least} queries or {pairs} pairs of all heads"
        )
    return None


def window_reason(call: Call) -> str | None:
    """Why a window with a table of rows and columns is left to SDPA, or None where it is large."""
    if torch.compiler.is_compiling() or call.dropout or dtype_of(call.q, call.k) in HALVES:
        return None
    grid = call.form.grid
    assert grid is not None
    least = _WINDOW_LEARNING if _learns(call.q, call.k, call.v, grid.values) else _WINDOW
    if call.q.shape[2] >= least:
        return None
    return f"windows of fewer than {least} tokens are left to SDPA, whose mask of them is small"


def decodes_fast(call: Call) -> bool:
    """Whether this is one query, or a few meet what is slow elsewhere: far keys, two rotations,
    tables of values or 16 bits.
    """
    if call.q.shape[2] == 1:
        return True
    form, dtype = call.form, dtype_of(call.q, call.k)
    if isinstance(form.rotation, Zones) or form.on_value is not None:
        return True
    if hides_most(form, call.k.shape[2]):
        return True
    if dtype == torch.bfloat16 and not _is_wide():
        return False
    if slow_in_sdpa(call.q, call.k):
        return True
    if _fills_squares(call):
        return False
    # SDPA hides the future of a few by a mask.
    positions, least = form.positions, _MASKED.get(dtype)
    if dtype == torch.bfloat16 and _multiplies_pairs():
        least = _MASKED_IN_PAIRS
    if least is None or not positions.causal or positions.q_len == positions.k_len:
        return False
    return call.q.shape[2] * call.k.shape[1] >= least * call.q.shape[1]


def _fills_squares(call: Call) -> bool:
    """Whether heads share keys in bfloat16, nothing is added to their scores, and the kernels too
    multiply in a matrix unit.
    """
    if call.q.shape[1] <= call.k.shape[1] or dtype_of(call.q, call.k) != torch.bfloat16:
        return False
    return _has_matrix_unit() and all(feature in BARE for feature in call.form.features)


def _is_wide() -> bool:
    """Whether vectors are of 512 bits: with less, few queries in bfloat16 are faster in SDPA."""
    return not isinstance(LIBRARY, str) and LIBRARY.reaches("avx512")


def _multiplies_pairs() -> bool:
    """Whether vectors multiply pairs of bfloat16, and no matrix unit does."""
    return not isinstance(LIBRARY, str) and LIBRARY.instruction_set == "avx512bf16"


def _has_matrix_unit() -> bool:
    return not isinstance(LIBRARY, str) and LIBRARY.reaches("amx")


def _lacks_matrix_unit() -> bool:
    return not isinstance(LIBRARY, str) and LIBRARY.lacks_matrix_unit


def _learns(*tensors: Tensor) -> bool:
    """Whether a gradient is asked for."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
