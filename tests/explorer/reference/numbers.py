"""Numbers and settings as the page's JavaScript is given them."""

import math
from dataclasses import asdict
from typing import Any

from torch import Tensor

from posenc.encoding import Encoding
from posenc.encodings.rotary import Rotary
from posenc.encodings.scaling import Scaling

# The shared settings of page.mjs.
PAGE: dict[str, Any] = {"d": 16, "base": 100, "length": 24, "heads": 4, "trained": 10}
SCALINGS = {
    "Linear": "linear",
    "NTK": "ntk",
    "DynamicNTK": "dynamic_ntk",
    "YaRN": "yarn",
    "LongRoPE": "longrope",
    "Llama3": "llama3",
    "Proportional": "proportional",
}


def numbers(tensor: Tensor) -> list[Any]:
    """A tensor as nested lists, rounded beyond what is compared."""
    if tensor.ndim > 1:
        return [numbers(part) for part in tensor]
    return [number(x) for x in tensor.detach().tolist()]


def number(x: float) -> float | str | None:
    """JSON has no infinity: None stands for -inf, "inf" for inf."""
    if math.isinf(x):
        return "inf" if x > 0 else None
    return float(f"{x:.11g}")


def plain(value: Any) -> Any:
    """A setting as JSON; scalings take the names that scaling.js gives them."""
    if isinstance(value, Scaling):
        return {"name": SCALINGS[type(value).__name__]} | scaled(value)
    if isinstance(value, Rotary):
        return settings_of(value)
    if isinstance(value, tuple):
        return list(value)
    return value.__name__ if callable(value) else value


def scaled(scaling: Scaling) -> dict[str, Any]:
    fields = {camel(name): value for name, value in asdict(scaling).items()}
    if "originalLength" in fields:
        fields["trained"] = fields.pop("originalLength")
    return fields


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def settings_of(encoding: Encoding) -> dict[str, Any]:
    return {name: plain(value) for name, value in encoding.settings().items()}
