from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torch import Tensor

from posenc import attention, plain_step


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether each call through a cache went the short way."""
    calls: list[bool] = []
    real = plain_step.plain_step

    def asked(*given: Any) -> Tensor | None:
        out = real(*given)
        calls.append(out is not None)
        return out

    monkeypatch.setattr(attention, "plain_step", asked)
    return calls


@pytest.fixture
def the_long_way(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(attention, "plain_step", lambda *_: None)
