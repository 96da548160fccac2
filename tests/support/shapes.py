"""What tests check of annotations: shapes as written, and whole numbers where floats are."""

import builtins
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any, ForwardRef, get_args

import jaxtyping
from beartype import BeartypeConf, beartype

typechecked = beartype(
    conf=BeartypeConf(is_pep484_tower=True, violation_type=jaxtyping.TypeCheckError)
)
_with_shapes = jaxtyping.jaxtyped


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
        return _with_shapes(function, typechecker=typechecker)
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
