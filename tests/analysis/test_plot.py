"""Figures: that they show the numbers of `measure`, how they look, and how they fail."""

import io
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from fontTools.ttLib import TTFont
from PIL import Image
from torch import Tensor

import posenc as pe
from posenc import Encoding, SettingError, ShapeError, UnsupportedError
from posenc.analysis import measure, plot
from posenc.analysis.plot.fonts import FILE
from posenc.analysis.plot.gallery import decomposed
from posenc.analysis.plot.labels import TEXT
from posenc.analysis.plot.style import DARK, LIGHT, Theme
from posenc.terms import DistanceTable, Term

FIRST = {name: next(iter(kind.examples())) for name, kind in pe.encodings().items()}
LANGUAGES, THEMES = ("en", "zh"), ("light", "dark")


class Bumps(Encoding):
    """A stranger's: it only embeds, and derives from nothing else of posenc."""

    name, family = "bumps", "absolute"

    def __init__(self) -> None:
        super().__init__()
        self.model_dim = 4

    def embed(self, x: Tensor, positions: object, *, layer: int = 0) -> Tensor:
        assert isinstance(positions, pe.Positions)
        bumps = torch.arange(1, 5) * (positions.queries.position.double() % 3).view(1, -1, 1)
        return x + bumps.to(x.dtype)


class Parity(Encoding):
    """A stranger's: keys at two distances of four score one more. Its repr fails."""

    name, family = "parity", "bias"

    def __init__(self, heads: int = 2, forgotten: int = 0) -> None:
        super().__init__()
        self.heads = heads

    def lower(self, positions: pe.Positions, *given: object, **named: object) -> tuple[Term, ...]:
        far = 300
        distance = torch.arange(-far, far + 1)
        values = (distance // 2 % 2).double().expand(2, -1)
        return (DistanceTable(values, zero=far),)


def image_of(axes: object) -> Tensor:
    return torch.from_numpy(np.ma.filled(axes.images[0].get_array(), np.nan))


def line_of(axes: object, index: int = 0) -> Tensor:
    return torch.from_numpy(np.asarray(axes.lines[index].get_ydata(), dtype=float))


def exact(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True, check_dtype=False)


def texts(figure: object) -> list[str]:
    """Everything that a figure says."""
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Nothing that is drawn changes matplotlib's settings."""
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before


# What is shown.


def test_a_heatmap_shows_the_vectors_of_positions() -> None:
    encoding = pe.Sinusoidal(16)
    (axes,) = plot.heatmap(encoding, 20).axes
    exact(image_of(axes), measure.position_table(encoding, 20))


def test_a_heatmap_of_what_acts_on_distances_shows_these() -> None:
    encoding = pe.ALiBi(4)
    (axes,) = plot.heatmap(encoding, 20).axes
    exact(image_of(axes), measure.distance_table(encoding, 20))


def test_a_table_is_shown_as_it_is() -> None:
    table = torch.arange(12.0).view(6, 2)
    (axes,) = plot.heatmap(table).axes
    exact(image_of(axes), table)
    assert axes.images[0].get_clim() == (-11.0, 11.0)
    (axes,) = plot.heatmap(table, 3).axes
    exact(image_of(axes), table[:3])


def test_what_is_not_finite_is_left_blank() -> None:
    table = torch.tensor([[0.5, math.inf], [math.nan, -2.0]])
    (axes,) = plot.heatmap(table).axes
    assert image_of(axes).isnan().tolist() == [[False, True], [True, False]]
    assert axes.images[0].get_clim() == (-2.0, 2.0)
    plot.svg(plot.heatmap(torch.full((2, 2), math.nan)))


def test_curves_are_columns() -> None:
    encoding = pe.Sinusoidal(16)
    axes = plot.curves(encoding, 20, dims=(0, 15)).axes
    table = measure.position_table(encoding, 20)
    exact(line_of(axes[0], 1), table[:, 0])
    exact(line_of(axes[1], 1), table[:, 15])


def test_a_circle_is_a_pair_of_dimensions() -> None:
    encoding = pe.Sinusoidal(16)
    circle, beside = plot.circle(encoding, 3, 20).axes
    table = measure.position_table(encoding, 20)
    exact(line_of(beside), table[:, 7])
    exact(line_of(beside, 1), table[:, 6])
    points = torch.from_numpy(np.asarray(circle.collections[0].get_offsets()))
    exact(points, table[:, [7, 6]])


def test_inner_products_come_with_their_envelope_and_pairs() -> None:
    encoding = pe.Rotary(16)
    upper, lower = plot.inner_product(encoding, 40).axes
    curve = measure.score_curve(encoding, 40)[0]
    torch.testing.assert_close(line_of(upper), curve)
    envelope = measure.decay(curve)
    torch.testing.assert_close(line_of(upper, 1), envelope.upper)
    torch.testing.assert_close(line_of(upper, 2), envelope.lower)
    cosines = measure.frequencies(encoding)[0][:, None] * torch.arange(40)
    torch.testing.assert_close(image_of(lower), cosines.cos())
    assert len(plot.inner_product(encoding, 40, pairs=False).axes) == 1


def test_inner_products_that_depend_on_more_than_distance_say_so() -> None:
    assert any("varies" in text for text in texts(plot.inner_product(FIRST["learned"], 40)))
    assert not any("varies" in text for text in texts(plot.inner_product(pe.Sinusoidal(16), 40)))


def test_scores_and_one_row_of_them() -> None:
    encoding = FIRST["t5"]
    matrix, row = plot.scores(encoding, 12, head=2, query=5).axes
    expected = measure.token_scores(encoding, 12)[2]
    exact(image_of(matrix), expected)
    exact(line_of(row), expected[5])


def test_hidden_scores_are_blank() -> None:
    matrix, _ = plot.scores(FIRST["rerope"], 6).axes
    assert torch.equal(image_of(matrix).isnan(), torch.ones(6, 6).triu(1).bool())


def test_biases_and_their_buckets() -> None:
    encoding = FIRST["t5"]
    curve, buckets = plot.bias(encoding, 12, heads=[1]).axes
    distance = torch.arange(-11, 12)
    expected = encoding.weight.detach()[encoding.bucket(distance), 1]
    torch.testing.assert_close(line_of(curve), expected.double())
    found = line_of(buckets)
    same = encoding.bucket(distance)[:, None] == encoding.bucket(distance)
    assert torch.equal(found[:, None] == found, same)
    assert len(plot.bias(pe.ALiBi(4), 12).axes) == 1


def test_angles_and_turns() -> None:
    encoding = pe.Rotary(16)
    matrix, turns = plot.angles(encoding, 40).axes
    exact(image_of(matrix).T, measure.relative_angles(encoding, 40, wrapped=True)[0])
    shown = torch.from_numpy(np.asarray(turns.lines[1].get_xdata()))
    exact(shown, measure.turns(measure.frequencies(encoding)[0], 40))


def test_wavelengths_of_several() -> None:
    encodings = {"one": pe.Rotary(16), "$two$": pe.Rotary(16, base=500.0)}
    (axes,) = plot.wavelengths(encodings, trained=100).axes
    lines = {line.get_label(): line for line in axes.lines}
    for name, encoding in encodings.items():
        expected = measure.wavelengths(measure.frequencies(encoding))[0]
        exact(torch.from_numpy(np.asarray(lines[name].get_ydata())), expected)


def test_every_scaling_is_overlaid() -> None:
    (axes,) = plot.wavelengths(plot.scaled(pe.Rotary(64))).axes
    named = [line.get_label() for line in axes.lines]
    assert {"RoPE", "Linear (PI)", "NTK", "DynamicNTK", "YaRN", "Llama 3", "LongRoPE"} < set(named)
    assert any("never turn" in text for text in texts(axes.figure))
    # A single pair is too few for NTK, which is left out.
    assert "NTK" not in plot.scaled(pe.Rotary(2))


def test_a_decomposition_shows_its_parts() -> None:
    found = decomposed(FIRST["shaw"], 6)
    axes = plot.decomposition(found, head=1).axes
    shown = [found.total(), *found.parts().values()]
    for part, expected in zip(axes, shown, strict=True):
        exact(image_of(part), expected[0, 1])
    assert len({axes[i].images[0].get_clim() for i in range(6)}) == 1


def test_a_decomposition_takes_what_decompose_takes() -> None:
    q = torch.randn(1, 2, 5, 8, dtype=torch.float64)
    encoding = pe.ALiBi(2)
    axes = plot.decomposition(q, q, encoding, causal=True, head=1).axes
    expected = pe.decompose(q, q, encoding, causal=True).total()[0, 1]
    shown = image_of(axes[0])
    exact(shown, expected.where(expected.isfinite(), math.nan))
    assert repr(encoding) in texts(axes[0].figure)


def test_masks_and_their_receptive_field() -> None:
    one, field = plot.mask([pe.SlidingWindow(3), pe.Sinks(1)], 12, layers=2).axes
    i, j = torch.arange(12)[:, None], torch.arange(12)
    seen = (j <= i) & ((i - j < 3) | (j < 1))
    assert torch.equal(~image_of(one).isnan(), seen)
    within_two = (j <= i) & ((i - j < 5) | (j < 1))
    expected = torch.where(seen, 1.0, torch.where(within_two, 2.0, math.nan))
    # A sink is reached by all in one layer.
    exact(image_of(field), expected)


# Every encoding.


@pytest.mark.parametrize("name", FIRST)
def test_what_applies_is_drawn(name: str) -> None:
    drawn = plot.gallery(FIRST[name], language="zh", theme="dark")
    assert drawn
    for figure in drawn.values():
        assert figure.axes
        assert figure.get_facecolor() == matplotlib.colors.to_rgba(DARK.paper)
    assert set(drawn) <= set(plot.FIGURES)


@pytest.mark.parametrize("name", FIRST)
def test_every_example_has_figures(name: str) -> None:
    for example in pe.encodings()[name].examples():
        assert plot.figures(example)


def test_each_kind_gets_its_figures() -> None:
    assert list(plot.figures(FIRST["sinusoidal"])) == [
        "heatmap", "curves", "circle", "helix", "inner_product", "scores", "angles",
        "wavelengths", "decomposition",
    ]  # fmt: skip
    assert list(plot.figures(FIRST["alibi"])) == ["heatmap", "scores", "bias", "decomposition"]
    assert list(plot.figures(FIRST["window"])) == ["mask"]
    assert list(plot.figures(FIRST["none"])) == ["decomposition"]
    assert "circle" not in plot.figures(FIRST["ordinal"])
    assert "circle" not in plot.figures(FIRST["rerope"])
    assert "mask" in plot.figures(FIRST["lm_infinite"])


def test_a_gallery_stays_within_a_short_table() -> None:
    encoding = pe.Learned(8, max_length=5)
    for figure in plot.gallery(encoding).values():
        assert figure.axes
    with pytest.raises(pe.PositionsError):
        plot.gallery(encoding, length=6)


@pytest.mark.parametrize("kind", [Bumps, Parity])
def test_a_strangers_class_is_drawn(kind: type[Encoding]) -> None:
    for figure in plot.gallery(kind()).values():
        assert plot.svg(figure).startswith("<?xml")


def test_a_strangers_numbers_are_its_own() -> None:
    (curve, buckets) = plot.bias(Parity(), 4).axes
    assert line_of(curve).tolist() == [0, 1, 1, 0, 0, 1, 1]
    assert line_of(buckets).tolist() == [0, 1, 1, 0, 0, 1, 1]


# How it looks.


def test_both_languages_say_everything() -> None:
    for key, said in TEXT.items():
        assert set(said) == {"en", "zh"}, key
        fields = [sorted(re.findall(r"{(\w+)}", text)) for text in said.values()]
        assert fields[0] == fields[1], key
        assert said["en"].isascii(), key


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
    text = "".join([said["zh"] for said in TEXT.values()] + [p.read_text("utf-8") for p in lessons])
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


# Files.


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


# What goes wrong.


@pytest.mark.usefixtures("unhooked")
def test_unknown_looks_are_named() -> None:
    with pytest.raises(SettingError, match=r"'blue'.*'light' and 'dark'"):
        plot.heatmap(pe.Sinusoidal(8), theme="blue")
    with pytest.raises(SettingError, match=r"'de'.*'en' and 'zh'"):
        plot.heatmap(pe.Sinusoidal(8), language="de")


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    "table", [torch.zeros(3), torch.zeros(0, 4), torch.zeros(3, 2, dtype=torch.complex64)]
)
def test_what_is_no_table_is_refused(table: Tensor) -> None:
    with pytest.raises(ShapeError, match="a figure of"):
        plot.heatmap(table)


def test_what_is_out_of_reach_is_refused() -> None:
    encoding = pe.Sinusoidal(8)
    for length in (-1, 1, 10**9):
        for figure in (plot.heatmap, plot.inner_product, plot.scores, plot.angles, plot.helix):
            with pytest.raises(SettingError, match=f"length={length}"):
                figure(encoding, length=length)
    with pytest.raises(SettingError, match="pair=4: there are 4"):
        plot.circle(encoding, pair=4)
    with pytest.raises(SettingError, match="dims=8"):
        plot.curves(encoding, dims=[8])
    with pytest.raises(SettingError, match="dims="):
        plot.curves(encoding, dims=[])
    with pytest.raises(SettingError, match="head=1"):
        plot.scores(encoding, head=1)
    with pytest.raises(SettingError, match="query=48"):
        plot.scores(encoding, query=48)
    with pytest.raises(SettingError, match="heads=12"):
        plot.bias(pe.ALiBi(12), heads=[12])
    with pytest.raises(SettingError, match="layers=0"):
        plot.mask(pe.SlidingWindow(3), layers=0)
    with pytest.raises(SettingError, match="trained=0"):
        plot.wavelengths({"rope": pe.Rotary(8)}, trained=0)
    with pytest.raises(SettingError, match="0 encodings"):
        plot.wavelengths({})


def test_what_says_nothing_of_it_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="adds nothing"):
        plot.bias(pe.Rotary(8))
    with pytest.raises(UnsupportedError, match="no vector"):
        plot.circle(pe.ALiBi(4))
    with pytest.raises(UnsupportedError, match="turns no queries"):
        plot.angles(pe.ALiBi(4))
    with pytest.raises(UnsupportedError):
        plot.wavelengths({"alibi": pe.ALiBi(4)})
