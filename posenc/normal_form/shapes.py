"""What terms may hold, in which shapes, and what is said of those that fit nothing else in a call.

Kernels read as far as q, k and v are large, and would read beyond a term that is smaller.
"""

from typing import NoReturn, get_args

import torch
from torch import Tensor

from posenc.errors import ShapeError, UnsupportedError, one_of
from posenc.mask_rules import MaskRule
from posenc.terms import (
    ChunkZones,
    CountTable,
    DenseBias,
    DistanceTable,
    GatherTable,
    GridTable,
    Householder,
    Layout,
    Mask,
    Network,
    Offset,
    Polar,
    Rotate,
    RotateValues,
    Scale,
    SinkLogit,
    Slope,
    Term,
    Transform,
    ValueTable,
    Zones,
    turns_in,
)

# Beside the letters, where tensors are.
DEVICE = "device"
# What the letters count: those of the call, and those within one term.
OF_CALL = {
    "b": "batch entries",
    "h": "heads",
    "g": "key heads",
    "h|g": "heads",
    "tq": "queries",
    "tk": "keys",
    "d": "dimensions",
    "v": "dimensions of values",
}
OF_TERM = {
    "n": "entries",
    "rows": "rows",
    "e": "dimensions",
    "r": "rotated pairs",
    "t_k": "keys",
    "u": "hidden units",
}
# A look-up beyond the ends of a table takes its last entry, and there must be one.
FILLED = "n", "rows"
# Which tensor has them, and what helps where it has others.
ADVICE = {
    "b": ("q", "give one row, or one for each batch entry"),
    "h": ("q", "construct the encoding with heads={}"),
    "g": ("k", "construct the encoding for {} key heads"),
    "h|g": ("k", "construct the encoding for {} key heads, or for those of q"),
    "d": ("q", "construct the encoding with head_dim={}"),
    "v": ("v", "construct the encoding for values of {} dimensions"),
    DEVICE: ("q", "move the encoding, and lower it for positions that lie where q does"),
}
# The shapes of a term's tensors as its docstring has them. `1|` may be 1, and such a size fits any;
# `h|g` is of each tensor by itself: one entry for every head, for every key head, or for several.
# Keys that are turned may be the new ones of a cache alone, which are fewer than its positions.
SHAPES: dict[type, dict[str, tuple[str, ...]]] = {
    Transform: {
        "q": ("1|b", "1|h", "1|tq", "n", "e", "e"),
        "k": ("1|b", "1|h|g", "1|t_k", "n", "e", "e"),
    },
    Rotate: {
        "q_angle": ("1|b", "1|h", "tq", "r"),
        "k_angle": ("1|b", "1|h|g", "t_k", "r"),
        "q_log_scale": ("1|b", "1|h|g", "tq", "r"),
        "k_log_scale": ("1|b", "1|h|g", "t_k", "r"),
    },
    RotateValues: {"q_angle": ("1|b", "1|h", "tq", "r"), "k_angle": ("1|b", "1|g", "t_k", "r")},
    Householder: {
        "w": ("1|b", "1|h|g", "tk", "d"),
        "beta": ("1|b", "1|h|g", "tk"),
        "heads": ("h",),
    },
    Polar: {"q_angle": ("1|b", "1|h", "tq", "d"), "k_angle": ("1|b", "1|h", "tk", "d")},
    DistanceTable: {"values": ("1|h", "n")},
    Slope: {"past": ("h",), "future": ("h",)},
    GatherTable: {"weight": ("1|h", "rows", "d"), "bias": ("1|h", "d"), "row_of": ("n",)},
    ValueTable: {"weight": ("1|h", "rows", "v"), "row_of": ("n",)},
    Network: {
        "by_distance": ("n",),
        "by_query": ("1|b", "tq"),
        "hidden_weight": ("u",),
        "hidden_bias": ("u",),
        "output_weight": ("1|h", "u"),
        "output_bias": ("1|h",),
    },
    GridTable: {"values": ("1|h", "n"), "q_index": ("1|b", "tq"), "k_index": ("1|b", "tk")},
    Offset: {"q": ("1|b", "h", "tq"), "k": ("1|b", "h", "tk")},
    CountTable: {"weight": ("1|h", "n", "d")},
    Scale: {"factor": ("1|b", "1|h", "tq")},
    SinkLogit: {"values": ("1|h",)},
    DenseBias: {"values": ("1|b", "1|h", "tq", "tk")},
}
# Of a GatherTable that is read by vectors of its own.
BY_OWN: dict[str, tuple[str, ...]] = {
    "weight": ("1|h", "rows", "e"),
    "row_of": ("n",),
    "own": ("1|b", "h", "tq", "e"),
}

# What is told by a word, and the words; tensors of indices; terms that hold no such thing.
WORDS: dict[type, dict[str, tuple[str, ...]]] = {
    Rotate: {"layout": get_args(Layout)},
    RotateValues: {"layout": get_args(Layout)},
    GatherTable: {"side": ("q", "k")},
}
INDICES: dict[type, tuple[str, ...]] = {
    GatherTable: ("row_of",),
    ValueTable: ("row_of",),
    GridTable: ("q_index", "k_index"),
}
_TOLD = (*WORDS, *INDICES, DenseBias, Mask, Zones, ChunkZones)
# As tuples, for torch 2.7's dynamo cannot trace isinstance with a union.
_TERMS, _RULES = get_args(Term), get_args(MaskRule)
OF_TENSORS = tuple(kind for kind in _TERMS if kind not in _TOLD)

# A letter or DEVICE, the term and its tensor that was made for this size, and the size.
MadeFor = tuple[str, tuple[str, ...], int]
# By letter, and of `h|g` by the tensor too.
Bound = dict[str | tuple[str, tuple[str, ...]], MadeFor]


def check(term: object) -> None:
    """Raise for what is no term, and for wrong words, rules and dtypes in one.

    Kernels would take any other word for one that they know, and read narrow indices as wide.
    """
    kind = type(term)
    if kind not in _TERMS:
        if isinstance(term, _RULES):
            raise UnsupportedError(f"{term!r} is a rule and no term: give Mask({term!r})")
        derived = isinstance(term, _TERMS)
        said = "derived from a term: give the term itself" if derived else "no term"
        raise UnsupportedError(f"{kind.__name__} is {said}; terms are those of posenc.terms")
    if isinstance(term, (Zones, ChunkZones)):
        for turn in turns_in(term).values():
            check(turn)
    for field, known in WORDS.get(kind, {}).items():
        if getattr(term, field) not in known:
            one_of(kind.__name__, known, **{field: getattr(term, field)})
    for field in INDICES.get(kind, ()):
        x = getattr(term, field)
        if isinstance(x, Tensor) and x.dtype != torch.int64:
            raise UnsupportedError(f"{kind.__name__}.{field} is of {x.dtype}: int64 is needed")
    if isinstance(term, DenseBias) and getattr(term.values, "dtype", None) == torch.bool:
        raise UnsupportedError(
            "DenseBias.values is of torch.bool: numbers are needed, -inf at pairs that are hidden"
        )
    if isinstance(term, Mask) and not isinstance(term.rule, _RULES):
        raise UnsupportedError(
            f"Mask of a {type(term.rule).__name__}, which would hide nothing: a rule is Window, "
            "Sink, Prefix or Chunk; for pairs that none tells give a DenseBias, -inf at them"
        )


def refuse_made(encoding: object, made: object) -> NoReturn:
    raise UnsupportedError(
        f"{type(encoding).__name__}.lower returned a {type(made).__name__}: terms come in a tuple, "
        "one alone as (term,)"
    )


def refuse_type(name: tuple[str, str], x: object, letters: tuple[str, ...]) -> NoReturn:
    raise ShapeError(f"{'.'.join(name)} is a {type(x).__name__}: give a tensor of shape {letters}")


def refuse_empty(name: tuple[str, ...], sizes: tuple[int, ...]) -> NoReturn:
    raise ShapeError(
        f"{'.'.join(name)} has shape {sizes}, which holds nothing: give one entry or more"
    )


def refuse(name: tuple[str, ...], size: int, known: MadeFor) -> NoReturn:
    letter, other, expected = known
    what = (OF_CALL | OF_TERM | {DEVICE: "device"})[letter]
    raise ShapeError(
        f"{'.'.join(name)} was made for {_told(letter, size)}, but {'.'.join(other)} for "
        f"{_told(letter, expected, False)}: construct what comes together for the same {what}"
    )


def refuse_call(letter: str, name: tuple[str, ...], size: int, found: int) -> NoReturn:
    tensor, advice = ADVICE[letter]
    has = "is on" if letter == DEVICE else "has"
    raise ShapeError(
        f"{'.'.join(name)} was made for {_told(letter, size)}, but {tensor} {has} "
        f"{_told(letter, found, False)}: {advice.format(found)}"
    )


def _told(letter: str, size: int, counts: bool = True) -> str:
    if letter == DEVICE:
        return {-2: "the meta device", -1: "a CPU"}.get(size, f"GPU {size}")
    return f"{size} {(OF_CALL | OF_TERM)[letter]}" if counts else f"{size}"
