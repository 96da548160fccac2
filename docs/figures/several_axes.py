import math
from typing import Any

import torch
from figures._page import Page
from matplotlib.figure import Figure
from torch import Tensor

import posenc as pe
from posenc.lowering import Lowerable

TEXTS = {
    "counted": ("Counted row by row", "逐行计数"),
    "axial": ("Axial: row and column", "轴向：行与列"),
    "mixed": ("RoPE-Mixed, one head", "RoPE-Mixed，一个头"),
    "row": ("row", "行"),
    "column": ("column", "列"),
    "time": ("time", "时间"),
    "places": ("Two words, a picture, a word", "两个词、一张图、一个词"),
    "token": ("token", "词元"),
    "waves": ("Wavelengths of each axis", "各轴的波长"),
    "positions": ("positions per turn", "每圈的位置数"),
    "apart": ("one after\nanother", "依次排列"),
    "turns": ("in turns", "轮流排列"),
}
SIZE, DIM = 9, 32
AXES = ("time", "row", "column")
# Qwen2-VL's and Qwen3-VL's.
SECTIONS: dict[str, tuple[tuple[int, ...], bool, float]] = {
    "apart": ((16, 24, 24), False, 1e6),
    "turns": ((24, 20, 20), True, 5e6),
}


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=4.6)
    grid = page.figure.add_gridspec(2, 6, height_ratios=(1.35, 1.0))
    patches = pe.Positions.grid(SIZE, SIZE)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(8)
        mixed = pe.MixedRotary(DIM, heads=1)
    kinds = {
        "counted": (pe.Rotary(DIM, base=100.0), None),
        "axial": (pe.AxialRotary(DIM, base=100.0), patches),
        "mixed": (mixed, patches),
    }
    for place, (title, (encoding, positions)) in enumerate(kinds.items()):
        axes = page.axes(grid[0, 2 * place : 2 * place + 2])
        page.heat(axes, around(encoding, positions))
        axes.set_aspect("equal")
        page.label(axes, x="column", y="" if place else "row", title=title)
    places(page, page.axes(grid[1, :3]))
    spectra(page, page.axes(grid[1, 3:], grid="x"))
    return page.figure


def around(encoding: Lowerable, positions: pe.Positions | None) -> Tensor:
    """Scores of the patch in the middle, of a query and keys that are all ones."""
    ones = torch.ones(1, 1, SIZE * SIZE, DIM, dtype=torch.float64)
    found = pe.scores(ones, ones, encoding, positions=positions).detach()
    return found[0, 0, SIZE * SIZE // 2].view(SIZE, SIZE)


def places(page: Page, axes: Any) -> None:
    types = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 0]])
    at = pe.Positions.mrope(types, torch.tensor([[1, 3, 2]]))
    told = at.keys.position[0].T.double()
    limits = (0.0, 8.0)
    page.heat(axes, told, palette="sequential", limits=limits)
    written = [[f"{value:.0f}" for value in row] for row in told.tolist()]
    page.numbers(axes, told.tolist(), "sequential", limits, written)
    axes.set_yticks(range(len(AXES)), [page.say(name) for name in AXES], **page.font())
    axes.set_xticks(range(told.shape[1]))
    page.label(axes, x="token", title="places")


def spectra(page: Page, axes: Any) -> None:
    """A dot for each pair at its wavelength, in the colour of the axis that it reads."""
    for line, (sections, in_turns, base) in enumerate(SECTIONS.values()):
        encoding = pe.MRoPE(128, sections, interleaved=in_turns, base=base)
        waves = 2 * math.pi / encoding.frequencies()
        for axis, label in enumerate(AXES):
            mine = waves[read_by(encoding, axis)]
            height = torch.full_like(mine, line + 0.22 * (axis - 1))
            look = {"linestyle": "none", "markersize": 3.2, "color": page.theme.lines[axis]}
            shown = page.say(label) if line == 0 else None
            axes.plot(mine.numpy(), height.numpy(), marker=page.marker(axis), label=shown, **look)
    axes.set_xscale("log")
    axes.set_ylim(1.5, -0.5)
    axes.set_yticks(range(len(SECTIONS)), [page.say(name) for name in SECTIONS], **page.font())
    page.label(axes, x="positions", title="waves")
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.42), "handlelength": 1.0}
    page.legend(axes, **below, ncols=3, columnspacing=1.0)


def read_by(encoding: pe.MRoPE, axis: int) -> Tensor:
    """Which pairs turn when a token moves along one axis."""
    moved = torch.zeros(1, 1, len(AXES))
    moved[..., axis] = 1.0
    turn = encoding.angles(moved)
    return turn.reshape(-1) > 0
