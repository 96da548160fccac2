"""Calls that are refused, and what is said of them."""

from collections.abc import Callable, Iterable

import pytest


def assert_refused(call: Callable[[], object], error: type[Exception], said: Iterable[str]) -> None:
    """The call raises this error, whose message has a match for each pattern."""
    with pytest.raises(error) as caught:
        call()
    for pattern in said:
        caught.match(pattern)
