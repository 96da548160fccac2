"""The call of a constructor as a person would write it: types without their modules."""

import inspect
import textwrap
import types
from typing import Any, Literal, Union, get_args, get_origin

WIDTH = 100
# Stands for a space within a parameter, where no line is to break.
HELD = "\ue000"


class Written(str):
    """An annotation that `inspect` shows as it is, without the quotes of text."""

    def __repr__(self) -> str:
        return str(self)


def signature(kind: type) -> str:
    """Its name and parameters, in lines that break between parameters."""
    called = inspect.signature(kind)
    parameters = [
        each.replace(annotation=Written(written(each.annotation)))
        if each.annotation is not each.empty
        else each
        for each in called.parameters.values()
    ]
    text = kind.__name__ + str(inspect.Signature(parameters))
    for each in map(str, parameters):
        text = text.replace(each, each.replace(" ", HELD), 1)
    indent = " " * (len(kind.__name__) + 1)
    lines = textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines).replace(HELD, " ")


def written(annotation: Any) -> str:
    """A type by its own name, and a choice of types with bars between them."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation is Ellipsis:
        return "..."
    if annotation in (None, types.NoneType):
        return "None"
    if origin in (Union, types.UnionType):
        return " | ".join(map(written, parts))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, parts))}]"
    name = getattr(origin or annotation, "__name__", None)
    if name is None:
        return str(annotation)
    if not parts:
        return name
    inner = (
        f"[{', '.join(map(written, part))}]" if isinstance(part, list) else written(part)
        for part in parts
    )
    return f"{name}[{', '.join(inner)}]"
