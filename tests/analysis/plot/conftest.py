from collections.abc import Iterator

import matplotlib
import pytest


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Nothing that is drawn changes matplotlib's settings."""
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
