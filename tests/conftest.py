import gc

import jaxtyping
import pytest
import torch
from hypothesis import settings

from tests.support import shapes

pytest_plugins = ["tests.support.programs", "tests.support.skips"]
# Before any module of posenc is imported, by the conftest of a folder say.
shapes.install()

# The same examples on every machine, however slow it is.
settings.register_profile("posenc", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("posenc")


def pytest_collection() -> None:
    """Tests and modules stay: to look for garbage among them takes a seventh of their reading."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_make_collect_report() -> None:
    """Members that a module builds for its parameters are drawn alike, whatever was read before."""
    seed()


def pytest_runtest_setup() -> None:
    seed()


def seed() -> None:
    """Draw the CPU's numbers alike. torch.manual_seed also keeps a traceback of its call for GPUs
    that may be used later: half a millisecond where calls lie as deep as in pytest.
    """
    torch.default_generator.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Threads cost tiny tensors far more than they bring, most of all on a busy machine."""
    torch.set_num_threads(1)


@pytest.fixture
def unhooked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong shapes reach posenc's own errors, as they do for users, not the test-time hook."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
