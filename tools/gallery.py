"""The pictures of the catalogue and of the evidence, as SVG.

    python tools/gallery.py docs/build/gallery

draws them in both themes into FOLDER/en and FOLDER/zh, by as many processes as there are cores,
a thumbnail of each encoding, every figure of its first example, and the curves of each claim.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import evidence_figures
import torch
from matplotlib.figure import Figure

import posenc
from posenc.analysis import plot
from posenc.claims import claims
from posenc.encoding import Encoding
from posenc.lowering import embeds_only

LANGUAGES, THEMES = ("en", "zh"), ("light", "dark")
THUMBNAIL = "thumbnail"


def draw(name: str, folder: Path) -> None:
    """The files of one encoding."""
    torch.set_num_threads(1)
    encoding = example(posenc.encodings()[name])
    drawings = chosen(encoding) | {THUMBNAIL: partial(thumbnail, encoding)}
    for figure, drawing in drawings.items():
        for language in LANGUAGES:
            for theme in THEMES:
                picture = drawing(theme=theme, language=language)
                # The page around it says which example it is, but not what is beside it.
                if not picture.get_supxlabel().startswith("["):
                    picture.supxlabel("")
                plot.save(picture, folder / language / f"{name}-{figure}.{theme}.svg")


def face(encoding: Encoding) -> str:
    """Which figure tells an encoding from others at a glance."""
    if embeds_only(encoding):
        return "heatmap"
    return "mask" if encoding.family == "mask" else "scores"


def thumbnail(encoding: Encoding, **look: Any) -> Figure:
    """The first map of that figure, without words."""
    # Where position does nothing, scores are no figure, but a square of one colour says so.
    drawing = chosen(encoding).get(face(encoding), partial(plot.scores, encoding))
    drawn: Any = drawing(**look).axes[0].images[0]
    picture = Figure((1.5, 1.5), facecolor="none")
    axes = picture.add_axes((0.0, 0.0, 1.0, 1.0), frameon=False)
    axes.set_axis_off()
    colours = {"cmap": drawn.cmap, "norm": drawn.norm, "interpolation": "none"}
    axes.imshow(drawn.get_array(), aspect="auto", **colours)
    return picture


def example(kind: type[Encoding]) -> Encoding:
    """The first example, its weights always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return next(iter(kind.examples()))


def chosen(encoding: Encoding) -> dict[str, plot.Draw]:
    """Its figures, but for those that repeat another.

    The cosines below the inner product are the curves of a rotary encoding, the turns beside its
    angles its wavelengths, and of a pair that does not turn the circle says what a helix would.
    Sinks hide nothing by themselves, and are shown beside a window.
    """
    drawn = plot.figures(encoding)
    if encoding.family == "rotary":
        drawn.pop("curves", None)
    if "angles" not in drawn:
        drawn.pop("helix", None)
    if not isinstance(encoding, (posenc.Rotary, posenc.Sinusoidal)):
        drawn.pop("wavelengths", None)
    if isinstance(encoding, posenc.Sinks):
        drawn["mask"] = partial(plot.mask, [posenc.SlidingWindow(4), encoding])
    return drawn


def main() -> None:
    folder = Path(sys.argv[1])
    for language in LANGUAGES:
        (folder / language).mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        claimed = pool.map(partial(evidence_figures.draw, folder=folder), claims())
        list(pool.map(partial(draw, folder=folder), posenc.encodings()))
        list(claimed)


if __name__ == "__main__":
    main()
