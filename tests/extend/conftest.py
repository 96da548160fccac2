from pathlib import Path

import pytest
from extend_models import save_tiny, some_text

from posenc.extend.options import Options


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"), max_position_embeddings=300)


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text"
    path.write_text(some_text())
    return path


@pytest.fixture
def options(folder: Path, text: Path, tmp_path: Path) -> Options:
    return Options(
        folder,
        to=(500,),
        methods=("none", "yarn", "dynamic", "self_extend"),
        text=(text,),
        out=tmp_path / "out",
        spans=2,
        needles=1,
    )
