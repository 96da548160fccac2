"""The way into a model, and the parts of it that posenc enters."""

from typing import Any

from posenc.models.attach.body import Body, spec_of
from posenc.models.attach.family import Family
from posenc.models.attach.interface import BY_INTERFACE
from posenc.models.attach.own import FAMILIES


def entry(model: Any) -> tuple[Family, Body]:
    """Raises UnsupportedError where there is none, and what `read` raises for its config."""
    spec = spec_of(model)
    family = FAMILIES.get(spec.model_type, BY_INTERFACE)
    return family, family.body(model, spec)
