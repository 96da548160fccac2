"""docs/gallery: every figure of every encoding's first example, in both themes, as SVG.

`python tools/gallery.py LANGUAGE FOLDER` draws it in another language.
"""

import base64
import io
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch

import posenc
from posenc.analysis import plot
from posenc.encoding import Encoding

FOLDER = Path(__file__).parent.parent / "docs" / "gallery"
THEMES = ("light", "dark")
# Machines round differently: by so much may a coordinate, in points, and a colour, of 255, differ.
POINTS, COLOUR = 0.06, 3

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
IMAGE = re.compile(r"data:image/png;base64,([\sA-Za-z0-9+/=]*)")
# Ids are made of what they name, down to the last digit of each number.
ID = re.compile(r'(?<=id=")[^"]*|(?<=url\(#)[^)]*|(?<=href="#)[^"]*')


def drawn(language: str = "en") -> Iterator[tuple[str, str]]:
    """Name and text of every file, as it should be, drawn by as many processes as cores."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for files in pool.map(partial(drawn_of, language=language), posenc.encodings()):
            yield from files


def drawn_of(name: str, language: str) -> list[tuple[str, str]]:
    """The files of one encoding."""
    torch.set_num_threads(1)
    files = []
    for figure, draw in chosen(example(posenc.encodings()[name])).items():
        for theme in THEMES:
            picture = draw(theme=theme, language=language)
            # The page around it says which example it is, in fewer bytes.
            picture.supxlabel("")
            files.append((f"{name}-{figure}.{theme}.svg", plot.svg(picture)))
    return files


def example(kind: type[Encoding]) -> Encoding:
    """The first example, its weights always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return next(iter(kind.examples()))


def chosen(encoding: Encoding) -> dict[str, plot.Draw]:
    """Its figures, but for those that repeat another: the page has room for 6 MB of them.

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


def write(language: str = "en", folder: Path = FOLDER) -> None:
    """Draw what is missing or no longer true, and remove what nothing draws."""
    folder.mkdir(parents=True, exist_ok=True)
    known = set()
    for name, text in drawn(language):
        path = folder / name
        known.add(path)
        if not path.exists() or not alike(path.read_text("utf-8"), text):
            path.write_text(text, "utf-8")
    for path in others(folder, known):
        path.unlink()


def problems() -> Iterator[str]:
    """What is stale, in one line each."""
    known = set()
    for name, text in drawn():
        path = FOLDER / name
        known.add(path)
        if not path.exists() or not alike(path.read_text("utf-8"), text):
            yield f"docs/gallery/{name} is stale: run `make generate`"
    for path in others(FOLDER, known):
        yield f"docs/gallery/{path.name} is drawn by nothing: run `make generate`"


def others(folder: Path, known: set[Path]) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path not in known)


def alike(one: str, two: str) -> bool:
    """Whether two SVGs show the same, but for the rounding of another machine."""
    if one == two:
        return True
    images = [IMAGE.findall(text) for text in (one, two)]
    plain = [ID.sub("", IMAGE.sub("", text)) for text in (one, two)]
    if NUMBER.sub("", plain[0]) != NUMBER.sub("", plain[1]) or len(images[0]) != len(images[1]):
        return False
    numbers = [list(map(float, NUMBER.findall(text))) for text in plain]
    near = all(abs(a - b) <= POINTS for a, b in zip(*numbers, strict=True))
    return near and all(same_picture(a, b) for a, b in zip(*images, strict=True))


def same_picture(one: str, two: str) -> bool:
    if one == two:
        return True
    a, b = pixels(one), pixels(two)
    return a.shape == b.shape and int((a - b).abs().max()) <= COLOUR


def pixels(encoded: str) -> torch.Tensor:
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(encoded))) as image:
        data = image.convert("RGBA")
        flat = torch.tensor(list(data.tobytes()), dtype=torch.int64)
        return flat.view(data.height, data.width, 4)


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
