"""Whether a typed value is what a constructor's annotation asks for, and what to type if not."""

import math
import types
from collections.abc import Callable, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from posenc.encoding import Encoding
from posenc.encodings.scaling import Scaling
from posenc.errors import SettingError, shown

# One way to write each scaling, for those who typed its name alone.
WRITTEN = (
    "Linear(4)",
    "NTK(4)",
    "DynamicNTK(4, 4096)",
    "YaRN(4, 4096)",
    "DynamicYaRN(4096)",
    "LongRoPE((1, 1.1, 1.5, 2), (1, 1.7, 5, 9), 4096, 8)",
    "Llama3(8, 1, 4, 8192)",
    "Proportional(0.5)",
    "Resonance(YaRN(4, 4096))",
)
WORDS = {
    int: "a whole number",
    float: "a finite number",
    bool: "True or False",
    str: "text",
    types.NoneType: "None",
}
SEVERAL = {
    int: "whole numbers in brackets, as in (1, 2)",
    float: "finite numbers in brackets, as in (1, 2.5)",
    str: "words in brackets, as in ('one', 'two')",
}
# Beyond this torch's whole numbers end.
HUGE = 2**62
SEQUENCES = (Sequence, tuple, list)


def check_types(kind: type, values: dict[str, Any]) -> None:
    """Raise SettingError for the first value whose type the constructor of `kind` does not take.

    Annotations that say nothing here, as those of other people's classes may, let anything pass.
    """
    try:
        hints = get_type_hints(kind.__init__)
    except Exception:
        return
    for name, value in values.items():
        if isinstance(value, int) and abs(value) >= HUGE:
            raise SettingError(f"{kind.__name__}({name}={shown(value)}): it must be below 2**62")
        if name in hints and not fits(value, hints[name]):
            asked = _asked(name, value, hints[name])
            # What nobody can type is left to the class to refuse.
            if asked:
                raise SettingError(f"{kind.__name__}({name}={shown(value)}): {asked}")


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of a type; a whole number is a number, and a list any sequence."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return any(value == part and type(value) is type(part) for part in parts)
    if origin in SEQUENCES and isinstance(value, (tuple, list)):
        alike = origin is not tuple or parts[1:] == (...,)
        wanted = parts[:1] * len(value) if alike else parts
        return len(value) == len(wanted) and all(map(fits, value, wanted))
    if origin is Callable:
        return callable(value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and _finite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else origin not in SEQUENCES


def spoken(hint: Any) -> list[str]:
    """What fits, in words, each way on its own; what nobody can type is left out."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return [word for part in parts for word in spoken(part)]
    if origin is Literal:
        return [repr(part) for part in parts]
    if origin in SEQUENCES:
        return [SEVERAL[parts[0]]] if len(set(parts) - {...}) == 1 and parts[0] in SEVERAL else []
    if isinstance(hint, type) and issubclass(hint, Encoding):
        return [f"an encoding, as in {hint.__name__}(16)"]
    return [WORDS[hint]] if hint in WORDS else []


def _asked(name: str, value: object, hint: Any) -> str:
    if Scaling in (hint, *get_args(hint)):
        written = {each.partition("(")[0].lower(): each for each in WRITTEN}
        known = written.values()
        if isinstance(value, str) and value.lower() in written:
            known = [written[value.lower()]]
        calls = " or ".join(f"'{name}={each}'" for each in known)
        return f"a scaling is written with its settings, as in {calls}"
    words = spoken(hint)
    return f"{name} must be {' or '.join(words)}" if words else ""


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        # A whole number beyond the end of float64.
        return False
