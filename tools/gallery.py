"""The pictures of the catalogue: every figure of every encoding's first example, as SVG.

    python tools/gallery.py docs/build/gallery

draws them in both themes into FOLDER/en and FOLDER/zh, by as many processes as there are cores.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch

import posenc
from posenc.analysis import plot
from posenc.encoding import Encoding

LANGUAGES, THEMES = ("en", "zh"), ("light", "dark")


def draw(name: str, folder: Path) -> None:
    """The files of one encoding."""
    torch.set_num_threads(1)
    for figure, drawing in chosen(example(posenc.encodings()[name])).items():
        for language in LANGUAGES:
            for theme in THEMES:
                picture = drawing(theme=theme, language=language)
                # The page around it says which example it is.
                picture.supxlabel("")
                plot.save(picture, folder / language / f"{name}-{figure}.{theme}.svg")


def example(kind: type[Encoding]) -> Encoding:
    """The first example, its weights always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return next(iter(kind.examples()))


def chosen(encoding: Encoding) -> dict[str, plot.Draw]:
    """Its figures, but for those that repeat another.

    The cosines below the inner product are the curves of a rotary encoding, the turns beside its
    angles its wavelengths, and of a pair that does not turn the circle says what a helix would.
    """
    drawn = plot.figures(encoding)
    if encoding.family == "rotary":
        drawn.pop("curves", None)
    if "angles" not in drawn:
        drawn.pop("helix", None)
    if not isinstance(encoding, (posenc.Rotary, posenc.Sinusoidal)):
        drawn.pop("wavelengths", None)
    return drawn


def main() -> None:
    folder = Path(sys.argv[1])
    for language in LANGUAGES:
        (folder / language).mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        list(pool.map(partial(draw, folder=folder), posenc.encodings()))


if __name__ == "__main__":
    main()
