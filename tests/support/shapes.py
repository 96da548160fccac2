"""What tests check of annotations: shapes as written, and whole numbers where floats are."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf, beartype

typechecked = beartype(conf=BeartypeConf(is_pep484_tower=True))
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
    if any(map(_has_shape, function.__annotations__.values())):
        return _with_shapes(function, typechecker=typechecker)
    # One within another is made anew in each call, and so would its checker be.
    if "<locals>" in function.__qualname__:
        return function
    of_types = typechecker(function)

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        chosen = function if jaxtyping.config.jaxtyping_disable else of_types
        return chosen(*args, **named)

    return call


def _has_shape(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return "[Tensor" in annotation
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(map(_has_shape, get_args(annotation)))
