"""The shapes of what terms hold, and what is said of those that fit nothing else in a call.

Kernels read as far as q, k and v are large, and would read beyond a term that is smaller.
"""

from typing import NoReturn, get_args

import torch
from torch import Tensor

from posenc.errors import ShapeError, UnsupportedError, one_of
from posenc.mask_rules import MaskRule
from posenc.terms import (
    CountTable,
    DenseBias,
    DistanceTable,
    GatherTable,
    GridTable,
    Householder,
    Layout,
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
)
from posenc.torch_modes import device_of

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

# What is told by a word, and the words; tensors of indices, which kernels read as they lie.
CHOICES: dict[type, dict[str, tuple[str, ...]]] = {
    Rotate: {"layout": get_args(Layout)},
    RotateValues: {"layout": get_args(Layout)},
    GatherTable: {"side": ("q", "k")},
}
INDICES = ("row_of", "q_index", "k_index")

# A letter or DEVICE, the tensor that was made for this size, and the size.
MadeFor = tuple[str, str, int]
# By letter, of which term and tensor a size is, and the size.
Bound = dict[str, tuple[tuple[str, ...], int]]


def bind(term: Term, of_call: Bound, of_term: Bound) -> None:
    """Take the sizes of a term's tensors into those that are known, which they must equal."""
    kind, by_own = type(term), isinstance(term, GatherTable) and term.own is not None
    for field, words in CHOICES.get(kind, {}).items():
        # Kernels would take whatever is not one of them for the other.
        if getattr(term, field) not in words:
            one_of(kind.__name__, words, **{field: getattr(term, field)})
    for field, letters in (BY_OWN if by_own else SHAPES.get(kind, {})).items():
        x = getattr(term, field)
        name = kind.__name__, field
        if isinstance(x, Tensor):
            sizes, device = x.shape, device_of(x)
            if x.dtype == torch.bool or field in INDICES:
                _check_dtype(".".join(name), x.dtype)
            other, expected = of_call.setdefault(DEVICE, (name, device))
            if device != expected:
                refuse(DEVICE, name, device, other, expected)
        elif field == "heads" and x is not None:
            sizes = (x,)
        elif x is None or kind is Scale:
            continue
        else:
            raise ShapeError(
                f"{'.'.join(name)} is a {type(x).__name__}: give a tensor of shape {letters}"
            )
        if len(letters) != len(sizes):
            raise ShapeError(f"{'.'.join(name)} has shape {tuple(sizes)}, but {letters} is needed")
        for letter, size in zip(letters, sizes, strict=True):
            if letter[0] == "1":
                if size == 1:
                    continue
                letter = letter[2:]
            known = of_call if letter in OF_CALL else of_term
            key = f"{letter} {'.'.join(name)}" if letter == "h|g" else letter
            if key not in known:
                known[key] = name, size
            elif size != known[key][1]:
                refuse(letter, name, size, *known[key])


def _check_dtype(name: str, dtype: torch.dtype) -> None:
    """Raise UnsupportedError for booleans, and for indices that are no int64."""
    if dtype == torch.bool:
        raise UnsupportedError(
            f"{name} is of torch.bool: it holds numbers; what hides pairs is a Mask, or minus "
            "infinity in a DenseBias"
        )
    if dtype != torch.int64:
        raise UnsupportedError(f"{name} is of {dtype}: it holds indices, int64")


def refuse_kind(term: object) -> NoReturn:
    """Say what is wrong with what is none of the terms."""
    kind = type(term).__name__
    if isinstance(term, get_args(MaskRule)):
        raise UnsupportedError(f"{term!r} is a rule and no term: give Mask({term!r})")
    if isinstance(term, get_args(Term)):
        raise UnsupportedError(f"{kind} is derived from a term: give the term itself")
    raise UnsupportedError(f"a {kind} is no term: give those of posenc.terms, one beside another")


def refuse(
    letter: str, name: tuple[str, ...], size: int, other: tuple[str, ...], expected: int
) -> NoReturn:
    what = (OF_CALL | OF_TERM | {DEVICE: "device"})[letter]
    raise ShapeError(
        f"{'.'.join(name)} was made for {_told(letter, size)}, but {'.'.join(other)} for "
        f"{_told(letter, expected, False)}: construct what comes together for the same {what}"
    )


def refuse_call(letter: str, name: str, size: int, found: int) -> NoReturn:
    tensor, advice = ADVICE[letter]
    has = "is on" if letter == DEVICE else "has"
    raise ShapeError(
        f"{name} was made for {_told(letter, size)}, but {tensor} {has} "
        f"{_told(letter, found, False)}: {advice.format(found)}"
    )


def _told(letter: str, size: int, counts: bool = True) -> str:
    if letter == DEVICE:
        return {-2: "the meta device", -1: "a CPU"}.get(size, f"GPU {size}")
    return f"{size} {(OF_CALL | OF_TERM)[letter]}" if counts else f"{size}"
