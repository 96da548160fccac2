"""What the checker of annotations lets pass, and what not."""

from dataclasses import dataclass

import jaxtyping
import pytest
from jaxtyping import Float
from torch import Tensor, ones, zeros

from tests.support.shapes import checked, typechecked


def product(x: Float[Tensor, "a b"], y: Float[Tensor, "b c"]) -> Float[Tensor, "a c"]:
    return x @ y


def wrong_product(x: Float[Tensor, "a b"]) -> Float[Tensor, "b a"]:
    return x


def late(x: "Float[Tensor, 'a a']", y: Float[Tensor, "a"] | None = None) -> None: ...


def stranger(x: "Imported | None") -> "Callable[[Imported], int]":
    return x


def half(x: float) -> float:
    return x / 2


def first(x: Float[Tensor, "a"]) -> Float[Tensor, "a"]:
    return x[: int(x[0])]


@dataclass(frozen=True)
class Pair:
    x: Float[Tensor, "a"]
    y: Float[Tensor, "a"]


@dataclass(frozen=True)
class Number:
    x: float


@pytest.mark.parametrize(
    ("function", "right", "wrong"),
    [
        (product, (zeros(2, 3), zeros(3, 4)), (zeros(2, 3), zeros(2, 3))),
        (wrong_product, (zeros(2, 2),), (zeros(2, 3),)),
        (late, (zeros(2, 2), zeros(2)), (zeros(2, 2), zeros(3))),
        (Pair, (zeros(2), zeros(2)), (zeros(2), zeros(3))),
        (first, (2 * ones(2),), (ones(2),)),
        (late, (zeros(2, 2), zeros(2)), (zeros(2, 2).long(), zeros(2))),
        (late, (zeros(2, 2), None), ([zeros(2, 2)], None)),
    ],
)
def test_shapes_are_those_of_one_call(function, right, wrong):
    hooked = checked(function, typechecker=typechecked)
    # The second is not checked, being like the first.
    hooked(*right)
    hooked(*right)
    with pytest.raises(jaxtyping.TypeCheckError):
        hooked(*wrong)


@pytest.mark.parametrize("function", [half, Number])
def test_types_are_checked_where_there_are_no_shapes(function):
    hooked = checked(function, typechecker=typechecked)
    # A whole number will do for a float.
    hooked(3)
    with pytest.raises(jaxtyping.TypeCheckError):
        hooked("3")


def test_a_test_can_have_the_errors_that_users_see(unhooked):
    for function, wrong in ((half, "3"), (late, zeros(2, 3))):
        hooked = checked(function, typechecker=typechecked)
        if function is half:
            with pytest.raises(TypeError, match="unsupported operand"):
                hooked(wrong)
        else:
            hooked(wrong)


def test_what_is_imported_for_types_alone_is_not_checked():
    assert checked(stranger, typechecker=typechecked)(3) == 3


def test_every_module_calls_it():
    assert jaxtyping.jaxtyped(typechecker=typechecked)(half)(3) == 1.5
    with pytest.raises(jaxtyping.TypeCheckError):
        jaxtyping.jaxtyped(typechecker=typechecked)(half)("3")
