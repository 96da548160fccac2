"""A moving picture of the explorer: controls move together, and each step is a frame.

    python tools/moving_picture.py docs/images/rotation

draws the picture of README: q and k move along the text by the same number, and the score stands
still. It writes NAME.LANGUAGE.THEME.gif for both languages and themes, and beside it the first
frame as .png, for readers who ask that nothing move; --help says what else can be opened, moved and
taken. Needs node, Chromium, and playwright-core in tests/explorer
(`tests/explorer/setup`).
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
from PIL import Image

from posenc.explorer import bundle

SHOOT = Path(__file__).with_suffix(".mjs")
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
LANGUAGES, THEMES = ("en", "zh"), ("light", "dark")
COLOURS = 32
# How long the page may take to show what is pressed or taken, in milliseconds.
PATIENCE = 20_000
MARGIN = 12


def frames(wanted: argparse.Namespace, language: str, theme: str) -> list[Image.Image]:
    """The picture at each step from the first values on."""
    first = {name: int(value) for name, value in (pair.split("=") for pair in wanted.move)}
    steps = range(wanted.by + 1)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        bundle.write(page)
        asked = {
            "address": f"{page.as_uri()}#{wanted.address}&lang={language}&theme={theme}",
            "browser": next(filter(None, map(shutil.which, CHROMIUMS)), None),
            "width": wanted.width,
            "scale": wanted.scale,
            "patience": PATIENCE,
            "clicked": wanted.click,
            "elements": wanted.element,
            "frames": [{name: value + step for name, value in first.items()} for step in steps],
            "folder": folder,
        }
        subprocess.run(["node", SHOOT], input=json.dumps(asked), text=True, check=True)
        strips = range(len(wanted.element))
        names = [[Path(folder, f"{step}-{strip}.png") for strip in strips] for step in steps]
        margin = round(MARGIN * wanted.scale)
        return [stacked([Image.open(path).convert("RGB") for path in row], margin) for row in names]


def stacked(strips: Sequence[Image.Image], margin: int) -> Image.Image:
    """Strips one below the other, on the paper that the first one begins with."""
    width = max(strip.width for strip in strips) + 2 * margin
    height = sum(strip.height + margin for strip in strips) + margin
    paper = tuple(np.asarray(strips[0])[0, 0].tolist())
    picture = Image.new("RGB", (width, height), paper)
    top = margin
    for strip in strips:
        picture.paste(strip, (margin, top))
        top += strip.height + margin
    return picture


def write(path: Path, shown: Sequence[Image.Image], milliseconds: int) -> None:
    """There and back again for ever, in few colours that all frames share; the first one still."""
    colours = shown[0].quantize(COLOURS, kmeans=2)
    few = [frame.quantize(palette=colours, dither=Image.Dither.NONE) for frame in shown]
    # Rounded like all colours, the paper would stand out from that of the page around it.
    palette, paper = few[0].getpalette() or [], 3 * int(np.asarray(few[0])[0, 0])
    palette[paper : paper + 3] = np.asarray(shown[0])[0, 0].tolist()
    for frame in few:
        frame.putpalette(palette)
    few[0].save(path.with_suffix(".png"), optimize=True)
    first, *others = [*few, *few[-2:0:-1]]
    first.save(
        path, save_all=True, append_images=others, duration=milliseconds, loop=0, optimize=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("name", type=Path, help="where the pictures go, without language, theme and ending")
    add("--address", default="rotation", help="what is opened, and its settings")
    add("--click", nargs="*", default=['[id="rotation.peek"]'], help="what is pressed at first")
    add("--move", nargs="+", default=["rotation.m=8", "rotation.n=3"], help="CONTROL=FIRST ...")
    add("--by", type=int, default=23, help="how far the controls move, in steps of 1")
    add(
        "--element",
        nargs="+",
        default=['[id="rotation.stage"] .plot'],
        help="what is taken of the page: a selector for each strip, top to bottom",
    )
    add("--width", type=int, default=600, help="of the window, in pixels")
    add("--scale", type=float, default=1.5, help="pixels of the picture for one of the page")
    add("--milliseconds", type=int, default=140, help="of each frame")
    wanted = parser.parse_args()
    for language, theme in product(LANGUAGES, THEMES):
        path = wanted.name.with_name(f"{wanted.name.name}.{language}.{theme}.gif")
        write(path, frames(wanted, language, theme), wanted.milliseconds)
        print(f"{path}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
