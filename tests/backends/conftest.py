import pytest
import torch


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of Triton's attention so small that short sequences have several."""
    from posenc.triton import gathered_args, kernel_args

    def blocks(dim: int, dtype: torch.dtype, kernel: str, **_: bool) -> tuple[int, int, int, int]:
        return (16, 32, 4, 1) if kernel == "keys" else (32, 16, 4, 1)

    for module in (kernel_args, gathered_args):
        monkeypatch.setattr(module, "blocks_for", blocks)
