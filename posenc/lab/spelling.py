"""What people type of something with settings: t5(max_distance=16), window(width=64) + alibi."""

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from posenc.errors import SettingError

_PART = re.compile(r"\s*([^()+=,\s]+(?:[ -][^()+=,\s]+)*)\s*(\(.*\))?\s*", re.DOTALL)


class Spelled(NamedTuple):
    """A name and the settings that stand in brackets behind it."""

    name: str
    settings: dict[str, Any]


def split(text: str, separator: str) -> list[str]:
    """The pieces between separators that stand in no brackets, without the empty ones."""
    pieces, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == separator and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces if piece.strip()]


def spelled(text: str, values: Mapping[str, Callable[..., Any]] | None = None) -> Spelled:
    """The name and settings of one piece; `values` are what a setting may be made by.

    A setting is a plain value of Python, or a call of one of `values` with plain values, as in
    rotary(scaling=YaRN(4)). Raises SettingError for anything else; nothing is executed.
    """
    match = _PART.fullmatch(text)
    if match is None:
        raise _refused(text, "a name is needed, and settings in brackets behind it")
    name, brackets = match.groups()
    try:
        call = ast.parse(f"f{brackets or '()'}", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise _refused(text, str(error)) from None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
        raise _refused(text, "one pair of brackets is needed")
    if call.args or any(k.arg is None for k in call.keywords):
        raise _refused(text, "settings are given by name")
    if len({k.arg for k in call.keywords}) < len(call.keywords):
        raise _refused(text, "a setting is given twice")
    settings = {str(k.arg): _value(k.value, values or {}, text) for k in call.keywords}
    return Spelled(name, settings)


def _value(node: ast.expr, values: Mapping[str, Callable[..., Any]], text: str) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        pass
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise _refused(text, f"{ast.unparse(node)} is no plain value")
    make = values.get(node.func.id)
    if make is None:
        known = f"; there are {', '.join(values)}" if values else ""
        raise _refused(text, f"{node.func.id} is not known here{known}")
    arguments = [_value(one, values, text) for one in node.args]
    named = {str(k.arg): _value(k.value, values, text) for k in node.keywords}
    try:
        return make(*arguments, **named)
    except TypeError as error:
        raise _refused(text, str(error)) from None


def _refused(text: str, reason: str) -> SettingError:
    return SettingError(f"{text!r} cannot be read: {reason}; as in t5(max_distance=16)")
