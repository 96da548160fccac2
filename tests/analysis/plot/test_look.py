"""How figures look: words, letters, colours; and how they become files."""

import io
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from drawn import FIRST, texts
from fontTools.ttLib import TTFont
from PIL import Image

import posenc as pe
from posenc import SettingError
from posenc.analysis import plot
from posenc.analysis.plot.fonts import FILE
from posenc.analysis.plot.gallery import decomposed
from posenc.analysis.plot.labels import TEXT
from posenc.analysis.plot.style import DARK, LIGHT, Theme

LANGUAGES, THEMES = ("en", "zh"), ("light", "dark")


def test_both_languages_say_everything() -> None:
    for key, said in TEXT.items():
        english, _ = said
        fields = [sorted(re.findall(r"{(\w+)}", text)) for text in said]
        assert fields[0] == fields[1], key
        assert english.isascii(), key


def test_every_word_is_used() -> None:
    folder = Path(plot.__path__[0])
    code = "".join(p.read_text("utf-8") for p in folder.glob("*.py") if p.name != "labels.py")
    parts = set(measure_parts())
    assert not [key for key in TEXT if f'"{key}"' not in code and key not in parts]


def measure_parts() -> list[str]:
    return list(decomposed(pe.NoPE(), 2).parts())


def test_the_font_has_every_letter_of_the_labels() -> None:
    known = set(TTFont(FILE).getBestCmap())
    lessons = (Path(__file__).parents[2] / "docs" / "figures").glob("*.py")
    chinese = [said for _, said in TEXT.values()]
    text = "".join([*chinese, *(p.read_text("utf-8") for p in lessons)])
    said = {letter for letter in text if ord(letter) >= 0x2E80}
    assert {letter for letter in said if ord(letter) not in known} == set(), "run tools/font.py"
    assert FILE.stat().st_size < 200_000
    assert "SIL OPEN FONT LICENSE" in (FILE.parent / "OFL.txt").read_text()


@pytest.mark.parametrize("theme", THEMES)
def test_chinese_is_drawn_as_letters_not_boxes(theme: str) -> None:
    for figure in plot.gallery(FIRST["rotary"], theme=theme, language="zh").values():
        # A missing glyph is a warning, and warnings are errors here.
        figure.savefig(io.BytesIO(), format="png", dpi=40)
        assert any(ord(letter) > 0x4E00 for text in texts(figure) for letter in text)


def luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def rgb(colour: str) -> tuple[float, float, float]:
    return matplotlib.colors.to_rgb(colour)


def contrast(one: str, two: str) -> float:
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=THEMES)
def test_text_and_lines_stand_out_from_the_paper(theme: Theme) -> None:
    assert contrast(theme.ink, theme.paper) > 12
    assert contrast(theme.muted, theme.paper) > 4.5
    assert min(contrast(line, theme.paper) for line in theme.lines) > 3
    assert contrast(theme.diverging[3], theme.paper) < 1.2


# How the three kinds of colour blindness see linear RGB: Machado et al. 2009, table 1, severity 1.
BLIND = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
               (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
               (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
               (0.004733, 0.691367, 0.303900)),
}  # fmt: skip


def seen(colour: str, kind: str) -> np.ndarray:
    """The colour in CIE Lab, as these eyes see it."""
    srgb = np.array(rgb(colour))
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(BLIND[kind]) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ linear / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", BLIND)
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=THEMES)
def test_the_first_lines_are_apart_for_colour_blind_eyes(theme: Theme, kind: str) -> None:
    colours = [seen(line, kind) for line in theme.lines[:4]]
    apart = [np.linalg.norm(a - b) for i, a in enumerate(colours) for b in colours[:i]]
    assert min(apart) > 12
    ends = theme.diverging[1], theme.diverging[-2]
    assert np.linalg.norm(seen(ends[0], kind) - seen(ends[1], kind)) > 40


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=THEMES)
def test_colours_in_order_go_from_dark_to_light_or_back(theme: Theme) -> None:
    steps = np.diff([luminance(colour) for colour in theme.sequential])
    assert (steps > 0).all() or (steps < 0).all()
    for side in (theme.diverging[:4], theme.diverging[3:]):
        steps = np.diff([luminance(colour) for colour in side])
        assert (steps > 0).all() or (steps < 0).all()


def test_matplotlib_waits_until_something_is_drawn() -> None:
    program = (
        "import sys, posenc.analysis.plot as plot\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import posenc as pe\n"
        "plot.svg(plot.helix(pe.Sinusoidal(8)))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_the_same_figure_is_the_same_file() -> None:
    one, two = (plot.svg(plot.circle(pe.Rotary(8))) for _ in range(2))
    assert one == two
    assert "<text" not in one
    assert "dc:date" not in one


def test_files_are_svg_or_png(tmp_path: Path) -> None:
    plot.save(plot.heatmap(pe.Sinusoidal(8)), tmp_path / "a.svg")
    figure = plot.heatmap(pe.Sinusoidal(8))
    assert (tmp_path / "a.svg").read_text("utf-8") == plot.svg(figure)
    plot.save(figure, str(tmp_path / "a.png"))
    with Image.open(tmp_path / "a.png") as image:
        assert image.width > 1000
    with pytest.raises(SettingError, match=r"\.svg or \.png"):
        plot.save(figure, tmp_path / "a.pdf")
