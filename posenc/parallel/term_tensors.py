"""The tensors of terms, by name, and those among them that belong to keys.

Terms made of the tokens of one rank hold for its queries before the keys of another where what
belongs to keys comes from there. Tables by distance, slopes and networks are the same on all ranks.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from posenc.terms import (
    GridTable,
    Householder,
    Offset,
    Polar,
    Rotate,
    RotateValues,
    Term,
    turns_in,
)
from posenc.torch_modes import altered

# Where a tensor is: the number of its term, then names.
Path = tuple[int | str, ...]
_BY_KEY: dict[type, tuple[str, ...]] = {
    Rotate: ("k_angle", "k_log_scale"),
    RotateValues: ("k_angle",),
    Polar: ("k_angle",),
    Offset: ("k",),
    Householder: ("w", "beta"),
    GridTable: ("k_index",),
}


def tensors_of(terms: Sequence[Term]) -> dict[Path, Tensor]:
    """All tensors of these terms, those of keys first."""
    found: dict[Path, Tensor] = {}
    for number, term in enumerate(terms):
        for path, one in _parts((number,), term):
            for name, x in vars(one).items():
                if isinstance(x, Tensor):
                    found[*path, name] = x
    keys = key_paths(terms)
    return {path: found[path] for path in keys} | found


def key_paths(terms: Sequence[Term]) -> list[Path]:
    """Where the tensors are that have a row for every key."""
    return [
        (*path, name)
        for number, term in enumerate(terms)
        for path, one in _parts((number,), term)
        for name in _BY_KEY.get(type(one), ())
        if isinstance(getattr(one, name), Tensor)
    ]


def with_tensors(terms: Sequence[Term], tensors: Mapping[Path, Tensor]) -> tuple[Term, ...]:
    """The same terms with other tensors at these places."""

    return tuple(_replaced((number,), term, tensors) for number, term in enumerate(terms))


def _replaced(path: Path, term: Any, tensors: Mapping[Path, Tensor]) -> Any:
    turns = {x: _replaced((*path, x), turn, tensors) for x, turn in turns_in(term).items()}
    if turns:
        return altered(term, **turns)
    own = {str(at[-1]): x for at, x in tensors.items() if at[:-1] == path}
    return altered(term, **own) if own else term


def _parts(path: Path, term: Any) -> list[tuple[Path, Any]]:
    """The term, or the rotations that it holds."""
    turns: list[tuple[Path, Any]] = [((*path, name), turn) for name, turn in turns_in(term).items()]
    return turns or [(path, term)]
