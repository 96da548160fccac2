"""Which encodings a figure has something to show of: tests on an encoding and its terms."""

from collections.abc import Callable

from posenc.encoding import Encoding
from posenc.encodings._merge import Absolute
from posenc.encodings.sinusoidal import Sinusoidal
from posenc.lowering import embeds_only
from posenc.terms import (
    DenseBias,
    DistanceTable,
    GatherTable,
    Mask,
    Offset,
    Rotate,
    Slope,
    Term,
    ValueTable,
    Zones,
)

Predicate = Callable[[Encoding, tuple[Term, ...]], bool]


def has(*kinds: type) -> Predicate:
    """Whether one of its terms is of these kinds."""
    return lambda encoding, terms: any(isinstance(term, kinds) for term in terms)


def either(*tests: Predicate) -> Predicate:
    return lambda encoding, terms: any(test(encoding, terms) for test in tests)


def embeds(encoding: Encoding, terms: tuple[Term, ...]) -> bool:
    return embeds_only(encoding)


def is_sinusoidal(encoding: Encoding, terms: tuple[Term, ...]) -> bool:
    return isinstance(encoding, Sinusoidal)


def in_pairs(encoding: Encoding, terms: tuple[Term, ...]) -> bool:
    """Whether each position has a vector of two numbers at least."""
    if embeds_only(encoding):
        width = encoding.columns if isinstance(encoding, Absolute) else encoding.model_dim
        return (width or 1) >= 2
    return any(isinstance(term, Rotate) for term in terms)


def scores_differ(encoding: Encoding, terms: tuple[Term, ...]) -> bool:
    """Whether it does more than hide, or nothing at all."""
    return embeds_only(encoding) or any(not isinstance(term, Mask) for term in terms)


def scored(encoding: Encoding, terms: tuple[Term, ...]) -> bool:
    return not terms or scores_differ(encoding, terms)


turns = has(Rotate, Zones)
adds = has(DistanceTable, Slope, GatherTable, Offset, DenseBias)
tells = either(embeds, turns, has(DistanceTable, Slope, GatherTable, ValueTable, DenseBias))
