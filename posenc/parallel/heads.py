"""A range of heads: what a device computes that holds some of them.

Letters: h query heads, g key heads.
"""

from typing import Any, cast

from torch import Tensor

from posenc.errors import ShapeError
from posenc.lowering import Lowered
from posenc.terms import (
    CountTable,
    DenseBias,
    DistanceTable,
    GatherTable,
    GridTable,
    Householder,
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
    turns_in,
)
from posenc.torch_modes import altered

# Where the heads are in each tensor of a term that may have some; a size of 1 is for all of them.
_AXES: dict[type[Term], dict[str, int]] = {
    Transform: {"q": 1, "k": 1},
    Rotate: {"q_angle": 1, "k_angle": 1, "q_log_scale": 1, "k_log_scale": 1},
    RotateValues: {"q_angle": 1, "k_angle": 1},
    Polar: {"q_angle": 1, "k_angle": 1},
    DistanceTable: {"values": 0},
    Slope: {"past": 0, "future": 0},
    GatherTable: {"weight": 0, "bias": 0, "own": 1},
    ValueTable: {"weight": 0},
    Network: {"output_weight": 0, "output_bias": 0},
    GridTable: {"values": 0},
    Offset: {"q": 1, "k": 1},
    Householder: {"w": 1, "beta": 1},
    CountTable: {"weight": 0},
    Scale: {"factor": 1},
    SinkLogit: {"values": 0},
    DenseBias: {"values": 1},
}


def heads_of(lowered: Lowered, first: int, count: int) -> Lowered:
    """The same terms for the query heads first .. first + count - 1, for the same positions.

    Tensors that have a row for each head are cut, and gradients flow into the whole ones. What all
    heads share stays as it is: terms without heads, RoPE's say, come back as they are. Which key
    heads belong to the range, `key_heads_of` tells.

    Raises ShapeError for heads that the terms do not have, and where a key head that a rotation
    tells apart is read from outside of the range too.

    Example:

        lowered = posenc.lower(posenc.ALiBi(heads=8), 256, causal=True)
        part = heads_of(lowered, 2, 4)  # for q[:, 2:6]
    """
    heads = _heads(lowered.terms)
    if heads == 1 and first >= 0 and count >= 1:
        return lowered
    if first < 0 or count < 1 or first + count > heads:
        raise ShapeError(
            f"heads_of(first={first}, count={count}): the terms have {heads} heads; give a range "
            f"of one or more of 0 to {heads - 1}"
        )
    terms = [_cut(term, first, count, heads) for term in lowered.terms]
    waves = lowered.form.q_waves
    return lowered.with_terms(terms) if waves is None else lowered.with_terms(terms, waves[0].dtype)


def key_heads_of(first: int, count: int, heads: int, key_heads: int) -> tuple[int, int]:
    """The first of the key heads that a range of query heads reads, and how many they are.

    Query head i reads key head i // (h / g). In a range that must stay so, so that it is made of
    whole groups, or lies within one.

    Raises ShapeError for a range that is neither.

    Example: `key_heads_of(4, 4, heads=8, key_heads=2)` is (1, 1).
    """
    if heads % key_heads:
        raise ShapeError(
            f"{heads} query heads and {key_heads} key heads: "
            "grouped-query attention needs a multiple"
        )
    group = heads // key_heads
    own, stop = first // group, -(-(first + count) // group)
    whole = first % group == 0 and count % group == 0
    if not whole and stop - own > 1:
        raise ShapeError(
            f"query heads {first} to {first + count - 1}, of which {group} share a key head: "
            "a range must be made of whole groups or lie within one"
        )
    return own, stop - own


def _heads(terms: tuple[Term, ...]) -> int:
    """How many heads these terms tell apart; 1 where they hold for all."""
    sizes = [x.shape[axis] for term in terms for _, x, axis in _per_head(term)]
    # Its rows may be of key heads, which query heads share.
    sizes += [term.heads or 1 for term in terms if isinstance(term, Householder)]
    return max(sizes, default=1)


def _per_head(term: Term) -> list[tuple[str, Tensor, int]]:
    """The tensors of a term that may have heads, by name, and where."""
    # Asked of the dict, for torch.compile takes an empty values() for true.
    turns = turns_in(term)
    if turns:
        return [found for turn in turns.values() for found in _per_head(turn)]
    fields = ((name, getattr(term, name), axis) for name, axis in _AXES.get(type(term), {}).items())
    return [(name, x, axis) for name, x, axis in fields if isinstance(x, Tensor)]


def _cut(term: Term, first: int, count: int, heads: int) -> Term:
    turns = {name: _cut(turn, first, count, heads) for name, turn in turns_in(term).items()}
    if turns:
        return cast(Term, altered(term, **turns))
    fields: dict[str, Any] = {"heads": count} if isinstance(term, Householder) else {}
    # By identity, so that queries and keys that share angles go on to share them.
    parts: dict[int, Tensor] = {}
    for name, x, axis in _per_head(term):
        own = x.shape[axis]
        if own == 1:
            continue
        if id(x) not in parts:
            # Of keys, a rotation may have as many as there are key heads.
            part = (first, count) if own == heads else key_heads_of(first, count, heads, own)
            parts[id(x)] = x.narrow(axis, *part)
        fields[name] = parts[id(x)]
    return cast(Term, altered(term, **fields)) if fields else term
