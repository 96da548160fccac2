"""What tests check of annotations: shapes as written, and whole numbers where floats are."""

import builtins
import dataclasses
import inspect
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial, wraps
from types import FunctionType
from typing import Any, ForwardRef, get_args

import jaxtyping
from beartype import BeartypeConf, beartype
from torch import Tensor, nn

typechecked = beartype(
    conf=BeartypeConf(is_pep484_tower=True, violation_type=jaxtyping.TypeCheckError)
)
_with_shapes = jaxtyping.jaxtyped
# Of a longer row of values the parts are not looked at.
LONGEST = 16


def install() -> None:
    """Let jaxtyping's import hook, which wraps every function and class, call `checked` below."""
    jaxtyping.jaxtyped = lambda *, typechecker: partial(checked, typechecker=typechecker)


def checked(function: Any, *, typechecker: Callable[[Any], Any]) -> Any:
    """jaxtyping's own where shapes are written, and the check of types alone where none are.

    Most functions name no shape, and jaxtyping takes several times as long over a call of one.
    """
    if inspect.isclass(function):
        if dataclasses.is_dataclass(function) and "__init__" in vars(function):
            initial = checked(function.__init__, typechecker=typechecker)
            function.__init__ = initial
        return function
    if any(_has_shape(x) or not _is_known(x, function) for x in _parts(function)):
        return _once(function, typechecker)
    # One within another is made anew in each call, and so would its checker be. Where gradients
    # arrive their holders are counted, and a checker would be one more.
    if "<locals>" in function.__qualname__ or function.__name__ == "backward":
        return function
    of_types = typechecker(function)

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        chosen = function if jaxtyping.config.jaxtyping_disable else of_types
        return chosen(*args, **named)

    return call


def _once(function: Any, typechecker: Callable[[Any], Any]) -> Any:
    """Check shapes once for all calls whose inputs and outputs have the same types and shapes.

    The check depends on nothing else, and takes longer than most of what tests compute.
    """
    passed: dict[Any, set[Any]] = {}
    made: list[Any] = []

    def body(*args: Any, **named: Any) -> Any:
        return made.pop() if made else function(*args, **named)

    # Names in annotations are those of the function's module.
    body = FunctionType(body.__code__, function.__globals__, closure=body.__closure__)
    of_shapes = _with_shapes(wraps(function)(body), typechecker=typechecker)

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **named)
        try:
            given = _look((args, named))
        except _UnknownError:
            return of_shapes(*args, **named)
        if given in passed:
            out = function(*args, **named)
            try:
                if _look(out) in passed[given]:
                    return out
            except _UnknownError:
                pass
            made[:] = [out]
        try:
            out = of_shapes(*args, **named)
        finally:
            made.clear()
        with suppress(_UnknownError):
            passed.setdefault(given, set()).add(_look(out))
        return out

    return call


class _UnknownError(Exception):
    """A value with parts that are not looked at."""


def _look(x: Any) -> Any:
    """All that annotations say of a value: its type, what a number or word is, a tensor's sizes."""
    if isinstance(x, Tensor):
        return type(x), x.shape, x.dtype
    if isinstance(x, int | str):
        return type(x), x
    if isinstance(x, tuple | list) and len(x) <= LONGEST:
        return type(x), *map(_look, x)
    if isinstance(x, dict) and len(x) <= LONGEST:
        return type(x), *map(_look, x.items())
    if isinstance(x, Collection) and not isinstance(x, nn.Module | type):
        raise _UnknownError
    return x if isinstance(x, type) else type(x)


def _parts(function: Any) -> Iterator[Any]:
    """The annotations of a function, and what stands within them."""
    waiting = list(function.__annotations__.values())
    while waiting:
        part = waiting.pop()
        yield part.__forward_arg__ if isinstance(part, ForwardRef) else part
        waiting += get_args(part)


def _has_shape(part: Any) -> bool:
    if isinstance(part, str):
        return "[Tensor" in part
    return inspect.isclass(part) and issubclass(part, jaxtyping.AbstractArray)


def _is_known(part: Any, function: Any) -> bool:
    """Whether a quoted name will be there in a call; jaxtyping lets those pass that never are."""
    if not isinstance(part, str):
        return True
    there = {*function.__globals__, *dir(builtins), *function.__qualname__.split(".")}
    return there.issuperset(re.findall(r"[^\W\d]\w*", part))
