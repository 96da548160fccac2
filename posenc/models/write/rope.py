"""Rotary settings in the words of transformers."""

import math
from typing import Any

from posenc.errors import UnsupportedError
from posenc.frequencies import FREQUENCIES, default
from posenc.models.angles import gain
from posenc.models.spec import EncodingSpec, ScalingSpec

_NAMES = {
    "Linear": "linear",
    "DynamicNTK": "dynamic",
    "YaRN": "yarn",
    "Llama3": "llama3",
    "LongRoPE": "longrope",
    "Proportional": "proportional",
}
_KEYS = {
    "original_length": "original_max_position_embeddings",
    "short": "short_factor",
    "long": "long_factor",
    "fraction": "partial_rotary_factor",
}


def rope_parameters(spec: EncodingSpec) -> dict[str, Any]:
    """The object of transformers 5 for one rotation.

    Raises UnsupportedError for a scaling that neither transformers names nor a table of
    frequencies can say.
    """
    settings = spec.settings
    dim = settings["dim"]
    turned = settings.get("rotary_dim", dim)
    scaling = settings.get("scaling")
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": settings["base"]}
    if "start" not in settings and turned != dim:
        rope["partial_rotary_factor"] = turned / dim
    if spec.name == "mrope":
        sections, interleaved = list(settings["sections"]), settings.get("interleaved")
        # ERNIE's files count the pairs of time last.
        rope["mrope_section"] = sections[1:] + sections[:1] if interleaved == "space" else sections
        if interleaved is True:
            rope["mrope_interleaved"] = True
    if scaling is None:
        return rope
    if scaling.name == "NTK":
        # Exactly another base.
        rope["rope_theta"] *= scaling.settings["factor"] ** (turned / (turned - 2))
        return rope
    if scaling.name not in _NAMES or scaling.settings.get("ramp") == "paper":
        return rope | carrier(spec)
    rope["rope_type"] = _NAMES[scaling.name]
    for name, value in scaling.settings.items():
        if (scaling.name, name) == ("DynamicNTK", "original_length"):
            # It is what the file states as its longest input.
            continue
        rope[_KEYS.get(name, name)] = list(value) if isinstance(value, tuple) else value
    return rope


def carrier(spec: EncodingSpec) -> dict[str, Any]:
    """Any table of frequencies that does not change with the length, as "longrope".

    Its divisors are the same below and beyond the original length, and its gain is given, so
    that whoever knows LongRoPE knows this table. Raises UnsupportedError as `divisors` does, and
    for pairs that rest, for JSON has no infinity.
    """
    table = list(divisors(spec))
    if math.inf in table:
        raise UnsupportedError(f"{spec}: pairs that rest have no finite divisor")
    scaling = spec.settings.get("scaling", ScalingSpec("Scaling", {}))
    return {
        "rope_type": "longrope",
        "short_factor": table,
        "long_factor": table,
        "factor": 1.0,
        "attention_factor": gain(spec),
        "original_max_position_embeddings": scaling.settings.get("original_length", 1),
    }


def divisors(spec: EncodingSpec) -> tuple[float, ...]:
    """By how much each pair is slower than without a scaling; infinite for one that rests.

    Raises UnsupportedError for a scaling that changes with the length, or has no formula here.
    """
    turned, base = spec.settings.get("rotary_dim", spec.settings["dim"]), spec.settings["base"]
    scaling = spec.settings.get("scaling", ScalingSpec("Scaling", {}))
    if scaling.name in ("DynamicNTK", "LongRoPE"):
        raise UnsupportedError(f"{scaling.name} changes with the length: no single table holds it")
    if scaling.name not in FREQUENCIES:
        raise UnsupportedError(f"posenc has no scaling {scaling.name}, and so no table of it")
    formula = FREQUENCIES[scaling.name]
    waves = [formula(i, base, turned, 1, **scaling.settings) for i in range(turned // 2)]
    return tuple(
        default(i, base, turned, 1) / wave if wave else math.inf for i, wave in enumerate(waves)
    )
