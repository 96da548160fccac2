from pathlib import Path

import pytest
import torch
from lab_runs import BROKEN

from posenc.lab.compare import Comparison


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Threads cost tiny models far more than they bring, most of all on a busy machine."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_text("".join(f"line {i} is {i * i % 1000}, more or less\n" for i in range(1000)))
    return path


@pytest.fixture
def small(text: Path, tmp_path: Path) -> Comparison:
    return Comparison(
        encodings=("none", "alibi"),
        train_length=8,
        test_lengths=(16, 32),
        dim=8,
        depth=1,
        heads=2,
        batch=4,
        steps=40,
        seeds=1,
        text=(text,),
        out=tmp_path / "out",
        jobs=2,
    )


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "posenc_broken.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    return "posenc_broken"
