import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Threads cost tiny models far more than they bring, most of all on a busy machine."""
    torch.set_num_threads(1)
