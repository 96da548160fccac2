"""Settings that an encoding has otherwise elsewhere, as data; parameters in each other's place."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from posenc.analysis.diagnosis.computation import Computation
from posenc.analysis.diagnosis.hypotheses import Rows, exchanging, with_setting
from posenc.encoding import Encoding
from posenc.encodings.alibi import ALiBi
from posenc.encodings.rotary import Rotary
from posenc.encodings.scaling import NTK, Linear, Llama3, Proportional, Scaling, YaRN
from posenc.encodings.t5 import T5Bias
from posenc.errors import SettingError

BASES = (100.0, 1e3, 1e4, 1e5, 2e5, 2.5e5, 5e5, 8e5, 1e6, 1.5e6, 5e6, 1e7)
FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)
LENGTHS = (512, 1_024, 2_048, 4_096, 8_192, 32_768)

# What the other implementation does, by the settings that do it.
Others = Iterable[tuple[str, dict[str, Any]]]


class Row(NamedTuple):
    """A cause of encodings of one kind, and the other values that their settings may have."""

    cause: str
    kind: type[Encoding]
    others: Callable[[Any], Others]


def known_setting(ours: Computation) -> Rows:
    """Each encoding with settings that other code is known to have."""
    for cause, kind, others in ROWS:
        for part in (part for part in ours.parts if isinstance(part, kind)):
            yield from _otherwise(ours, part, cause, others(part))


def any_setting(ours: Computation) -> Rows:
    """Flags, counts off by one, and names of which there are few."""
    for part in (part for part in ours.parts if isinstance(part, Encoding)):
        hints = get_type_hints(type(part).__init__)
        for name, own in part.settings().items():
            others: tuple[object, ...] = ()
            if isinstance(own, bool):
                others = (not own,)
            elif isinstance(own, int):
                others = (own + 1, own - 1)
            elif get_origin(hints.get(name)) is Literal:
                others = get_args(hints[name])
            cause = name if isinstance(own, str) else f"setting {name}"
            says = ((f"has {name}={other!r}, ours {name}={own!r}", other) for other in others)
            yield from _otherwise(ours, part, cause, ((s, {name: o}) for s, o in says))


def _otherwise(ours: Computation, part: Encoding, cause: str, others: Others) -> Rows:
    for says, settings in others:
        theirs = with_setting(ours, part, **settings)
        if theirs is not None:
            yield cause, says, theirs


def _bases(own: Any) -> Others:
    rotates = getattr(own, "base", None) is not None and type(own).embed is Encoding.embed
    for base in BASES if rotates else ():
        yield f"has the base {base:g}, ours {own.base:g}", {"base": base}


def _widths(own: Rotary) -> Others:
    for width in range(2, own.dim + 1, 2):
        yield (
            f"turns {width} of {own.dim} dimensions, ours {own.rotated_dim}",
            {"rotary_dim": width},
        )


def _shares(own: Rotary) -> Others:
    for width in range(2, own.dim, 2):
        says = (
            f"turns the fastest {width // 2} of {own.dim // 2} pairs of the whole head "
            f"(proportional), ours {own.rotated_dim} dimensions"
        )
        yield says, {"rotary_dim": None, "scaling": Proportional(width / own.dim)}


def _scaled(own: Rotary, others: Iterable[Scaling | None]) -> Others:
    for other in others:
        yield f"scales frequencies by {other!r}, ours by {own.scaling!r}", {"scaling": other}


def _linear(own: Rotary) -> Others:
    factor = getattr(own.scaling, "factor", None) or 1
    return _scaled(own, map(Linear, (factor, *FACTORS)))


def _scalings(own: Rotary) -> Others:
    scaling = own.scaling
    factor, length = (getattr(scaling, name, None) or 1 for name in ("factor", "original_length"))
    fields: list[tuple[str, Any]] = [("factor", each) for each in FACTORS]
    lengths = {*LENGTHS, length * int(factor), length // int(factor)}
    fields += [("original_length", each) for each in sorted(lengths)]
    fields += [("truncate", True), ("truncate", False), ("ramp", "code"), ("ramp", "paper")]
    others = [None, *(_changed(scaling, *field) for field in fields)]
    others += [NTK(each) for each in (factor, *FACTORS)]
    others += [YaRN(each, reach) for each in FACTORS for reach in LENGTHS]
    others += [Llama3(8.0, 1.0, 4.0, 8_192), Llama3(32.0, 1.0, 4.0, 8_192)]
    return _scaled(own, others)


def _changed(scaling: Any, name: str, value: object) -> Scaling | None:
    """The scaling with another field; itself where it has none, or where that has no meaning."""
    try:
        return replace(scaling, **{name: value}) if hasattr(scaling, name) else scaling
    except SettingError:
        return scaling


def _slopes(own: ALiBi) -> Others:
    heads = own.heads or 1
    below = max(2**n for n in range(32) if 2**n <= heads)

    def powers(n: int, first: int = 1) -> list[float]:
        return [2.0 ** (-8 * h / n) for h in range(first, first + heads)]

    spaced = [2.0 ** -(1 + 7 * h / max(heads - 1, 1)) for h in range(heads)]
    by_size = sorted(own.slope_values(), reverse=True)
    others = {
        "2**(-8h/n) for all n heads, also where n is no power of two": powers(heads),
        "those of the authors' code": ALiBi(heads).slope_values(),
        "2**(-8h/n) counted from h = 0": powers(heads, first=0),
        "evenly spaced powers from 2**-1 to 2**-8": spaced,
        "those of a power of two, in the order of their size": by_size,
        f"2**(-8h/{below}), counted on beyond {below} heads": powers(below),
        f"2**(-8h/{2 * below}), the first {heads} of them": powers(2 * below),
    }
    for name, slopes in others.items() if not own.learned else ():
        yield f"has other slopes: {name}", {"slopes": slopes}


def _buckets(own: T5Bias) -> Others:
    says = f"has buckets for {'one direction' if own.bidirectional else 'both directions'}"
    yield f"{says}, ours the opposite", {"bidirectional": not own.bidirectional}
    for far in sorted({*(2**n for n in range(3, 13)), own.max_distance + 1}):
        says = f"has the last bucket begin at {far}, ours at {own.max_distance}"
        yield says, {"max_distance": far}


ROWS = (
    Row("base", Encoding, _bases),
    Row("partial width", Rotary, _widths),
    Row("proportional width", Rotary, _shares),
    Row("scaling", Rotary, _scalings),
    Row("linear factor", Rotary, _linear),
    Row("slopes", ALiBi, _slopes),
    Row("buckets", T5Bias, _buckets),
)


def exchanged(ours: Computation) -> Rows:
    """Parameters of one shape, and a layer's projections, in each other's place."""
    for part in (part for part in ours.parts if isinstance(part, Encoding)):
        for one, two in combinations(dict(part.named_parameters()), 2):
            other = copy.deepcopy(part)
            first, second = other.get_parameter(one), other.get_parameter(two)
            if first.shape == second.shape:
                first.data, second.data = second.data, first.data
                says = f"has the values of {one} in {two}, and the other way round"
                yield "parameters exchanged", says, exchanging(ours, part, other)
    context = ours.context
    if context is not None and context.project_q is not None:
        says = "projects tables for queries by the keys' weights, and the other way round"
        swapped = replace(context, project_q=context.project_k, project_k=context.project_q)
        yield "projections exchanged", says, replace(ours, context=swapped)
