"""The gallery: what counts as stale, and that a smaller SVG is the same picture."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import posenc as pe
from posenc.analysis import plot

ROOT = Path(__file__).parents[2]


@pytest.fixture
def gallery(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    sys.modules.pop("gallery", None)
    import gallery

    return gallery


@pytest.fixture(scope="module")
def drawn() -> str:
    return plot.svg(plot.heatmap(pe.Sinusoidal(8), 20))


def test_rounding_is_not_stale(gallery: object, drawn: str) -> None:
    number = re.search(r"\d+\.\d\d(?=L)", drawn)
    assert number is not None
    other = drawn.replace(number[0], f"{float(number[0]) + 0.01:.2f}")
    assert other != drawn
    assert gallery.alike(drawn, other)


def test_another_picture_is_stale(gallery: object, drawn: str) -> None:
    for change in (
        plot.heatmap(pe.Sinusoidal(8), 21),
        plot.heatmap(pe.Sinusoidal(8, base=9_000.0), 20),
        plot.heatmap(pe.Sinusoidal(8), 20, theme="dark"),
    ):
        assert not gallery.alike(drawn, plot.svg(change))


def test_every_encoding_is_in_it_in_both_themes(gallery: object) -> None:
    files = {path.name for path in (ROOT / "docs" / "gallery").glob("*")}
    for name, kind in pe.encodings().items():
        for figure in gallery.chosen(gallery.example(kind)):
            for theme in ("light", "dark"):
                files.remove(f"{name}-{figure}.{theme}.svg")
    assert not files


def test_it_stays_small() -> None:
    sizes = [path.stat().st_size for path in (ROOT / "docs" / "gallery").glob("*.svg")]
    assert sum(sizes) < 6_000_000


def test_shrinking_keeps_a_well_formed_picture(drawn: str) -> None:
    root = ElementTree.fromstring(drawn)
    ids = [node.get("id") for node in root.iter() if node.get("id")]
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', drawn))
    assert used == set(ids)
    assert sum(node.tag.endswith("image") for node in root.iter()) == 2
