from collections.abc import Callable

import pytest

from posenc import attention
from tests.support.steps import recorded


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call through a cache went the short way."""
    return recorded(monkeypatch, "plain_step")


@pytest.fixture
def the_long_way(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(attention, "plain_step", lambda *_: None)
