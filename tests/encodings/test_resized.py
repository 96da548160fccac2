"""Tables of patches at another resolution, against transformers, scipy and the formula."""

from itertools import product
from typing import Any, Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import ndimage
from torch import Tensor

from posenc import Learned, SettingError
from tests.support.oracles import drawing

GRIDS = [((5, 5), (8, 7)), ((6, 6), (3, 4)), ((4, 7), (9, 3)), ((3, 3), (1, 2))]


def table(grid: tuple[int, int], leading: int = 0, dim: int = 3) -> Learned:
    return Learned.from_rows(drawing(1)(leading + grid[0] * grid[1], dim))


def cubic(x: np.ndarray, a: float) -> np.ndarray:
    """Keys 1981, equation 15: what a sample at distance x weighs."""
    x = np.abs(x)
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * (x**3 - 5 * x**2 + 8 * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def weights(n: int, m: int, mode: str, antialias: bool, corners: bool, offset: float) -> np.ndarray:
    """How much each of n patches gives to each of m."""
    i = np.arange(m)
    step = (n - 1) / max(m - 1, 1) if corners else n / (m + offset)
    at = i * step if corners else (i + 0.5) * step - 0.5
    wide = max(step, 1.0) if antialias else 1.0
    out = np.zeros((m, n))
    # Beyond the ends the end itself is read; with antialias what lies there is left out.
    for row, centre in enumerate(at):
        for patch in range(-3 * n, 4 * n):
            x = np.array((patch - centre) / wide)
            curve = -0.5 if antialias else -0.75
            weight = cubic(x, curve) if mode == "bicubic" else np.maximum(1 - np.abs(x), 0)
            if 0 <= patch < n or not antialias:
                out[row, min(max(patch, 0), n - 1)] += weight
    return out / out.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("grid", "to"), GRIDS)
def test_each_convention_is_its_formula(grid: tuple[int, int], to: tuple[int, int]) -> None:
    before = table(grid, leading=2)
    rows = before.weight.detach()
    patches = rows[2:].view(*grid, -1).numpy()
    sampled = [(False, False, 0.0), (False, False, 0.1), (True, False, 0.0), (False, True, 0.0)]
    modes: tuple[Literal["bicubic", "bilinear"], ...] = ("bicubic", "bilinear")
    for mode, settings in product(modes, [*sampled, (True, False, 0.1)]):
        down, across = (weights(n, m, mode, *settings) for n, m in zip(grid, to, strict=True))
        expected = torch.from_numpy(np.einsum("ir,jc,rce->ije", down, across, patches))
        after = before.resized(grid, to, 2, mode, *settings).weight.detach()
        assert torch.equal(after[:2], rows[:2])
        torch.testing.assert_close(after[2:], expected.flatten(0, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("grid", "to"), GRIDS)
def test_the_authors_of_vit_and_of_dinov2(grid: tuple[int, int], to: tuple[int, int]) -> None:
    """What their code calls: scipy.ndimage.zoom, and interpolate with the size plus 0.1."""
    before = table(grid)
    patches = before.weight.detach().view(*grid, -1)
    zoom = (to[0] / grid[0], to[1] / grid[1], 1)
    expected = torch.from_numpy(ndimage.zoom(patches.numpy(), zoom, order=1)).flatten(0, 1)
    found = before.resized(grid, to, mode="bilinear", align_corners=True).weight.detach()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    scale = tuple(float(m + 0.1) / n for m, n in zip(to, grid, strict=True))
    theirs = F.interpolate(patches.permute(2, 0, 1)[None], scale_factor=scale, mode="bicubic")
    found = before.resized(grid, to, offset=0.1).weight.detach()
    torch.testing.assert_close(found, theirs[0].flatten(1).T, rtol=0, atol=1e-12)
    # The offset moves every patch but the first by more than rounding.
    assert (found - before.resized(grid, to).weight.detach()).abs().max() > 1e-3


def embeddings(kind: str) -> tuple[Any, Tensor]:
    """Embeddings of transformers for 5 x 5 patches, and their table with the class in front."""
    from transformers import Dinov2Config, Dinov2WithRegistersConfig, ViTConfig
    from transformers.models.dinov2.modeling_dinov2 import Dinov2Embeddings
    from transformers.models.dinov2_with_registers import modeling_dinov2_with_registers as regs
    from transformers.models.vit.modeling_vit import ViTEmbeddings

    sizes = {"hidden_size": 12, "image_size": 10, "patch_size": 2}
    kinds: dict[str, Any] = {
        "vit": lambda: ViTEmbeddings(ViTConfig(**sizes)),
        "dinov2": lambda: Dinov2Embeddings(Dinov2Config(**sizes)),
        "registers": lambda: regs.Dinov2WithRegistersEmbeddings(Dinov2WithRegistersConfig(**sizes)),
    }
    made = kinds[kind]()
    torch.nn.init.normal_(made.position_embeddings)
    return made, made.position_embeddings[0]


@pytest.mark.parametrize(
    ("kind", "antialias"), [("vit", False), ("dinov2", False), ("registers", True)]
)
@pytest.mark.parametrize("to", [(8, 7), (3, 2), (5, 5)])
def test_as_transformers_resizes(kind: str, antialias: bool, to: tuple[int, int]) -> None:
    made, rows = embeddings(kind)
    patches = torch.zeros(1, 1 + to[0] * to[1], 12)
    expected = made.interpolate_pos_encoding(patches, 2 * to[0], 2 * to[1])[0]
    ours = Learned.from_rows(rows.detach()).resized((5, 5), to, leading=1, antialias=antialias)
    torch.testing.assert_close(ours.weight, expected, rtol=0, atol=1e-5)
    other = Learned.from_rows(rows.detach()).resized((5, 5), to, 1, antialias=not antialias)
    assert to == (5, 5) or (other.weight - expected).abs().max() > 1e-3


def test_as_transformers_resizes_siglip_2() -> None:
    from transformers.models.siglip2.modeling_siglip2 import Siglip2VisionEmbeddings

    for to in ((8, 7), (3, 2)):
        before = table((5, 5))
        shapes, resize = torch.tensor([to]), Siglip2VisionEmbeddings.resize_positional_embeddings
        expected = resize(before.weight.detach().view(5, 5, -1), shapes, to[0] * to[1])[0]
        ours = before.resized((5, 5), to, mode="bilinear", antialias=True)
        # Theirs is computed in float32.
        torch.testing.assert_close(ours.weight.detach(), expected, rtol=0, atol=1e-5)


def test_a_resized_table_is_new_trainable_and_alike() -> None:
    before = Learned(3, 26, merge="multiply").bfloat16().requires_grad_(False)
    after = before.resized((5, 5), (5, 7), leading=1)
    assert repr(after) == "Learned(dim=3, max_length=36, merge='multiply', padding_idx=None)"
    assert after.weight.dtype == torch.bfloat16
    assert after.weight.requires_grad
    same = before.resized((5, 5), (5, 5), leading=1, offset=0.1, antialias=True)
    assert torch.equal(same.weight, before.weight)
    assert same.weight.data_ptr() != before.weight.data_ptr()
    assert before.to("meta").resized((5, 5), (8, 7), leading=1).weight.is_meta


@pytest.mark.usefixtures("unhooked")
def test_grids_that_are_not_those_of_the_table() -> None:
    said = r"Learned\(max_length=25\)\.resized\("
    refused: list[tuple[Any, str]] = [
        (((5, 5), (8, 7), 1), said + r"\(5, 5\), \(8, 7\), leading=1\): .* 1 \+ 5 \* 5 rows of 25"),
        (((5, 5), (0, 7)), said + r".*sizes of 1 or more"),
        (((5, 5), (8, 7), 0, "nearest"), r"mode='nearest'\): mode is 'bicubic' or 'bilinear'"),
        (((5, 5), (8, 7), 0, "bicubic", False, False, 1.0), said + r".*offset=1\.0.*offset < 1"),
        (((5, 5), (8, 7), 0, "bicubic", False, True, 0.1), said + r".*neither an offset"),
        (((5, 5), (8, 7), 0, "bicubic", True, True), said + r".*nor antialias"),
    ]
    for arguments, message in refused:
        with pytest.raises(SettingError, match=message):
            table((5, 5)).resized(*arguments)
    with pytest.raises(SettingError, match=r"row padding_idx=1 is no patch"):
        Learned(3, 25, padding_idx=1).resized((5, 5), (8, 7))
