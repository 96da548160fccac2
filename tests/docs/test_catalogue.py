"""The catalogue: pages and pictures that `make docs` makes of every encoding."""

import dataclasses
import re
import sys
from pathlib import Path

import pytest
import torch
from drawn import exact, image_of, texts

import posenc as pe
from posenc.analysis import measure, plot
from posenc.chinese import FAMILIES, FOLDER, family

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "tools"), str(ROOT / "docs")]

import catalogue  # noqa: E402
import gallery  # noqa: E402
import properties  # noqa: E402
from punctuate import punctuate  # noqa: E402


class Stranger(pe.NoPE):
    """Says nothing in Chinese."""

    name = "stranger"
    family = "strange"
    paper = "this page"


@pytest.fixture(scope="module")
def pages() -> dict[Path, str]:
    """Every page, the measurements of the cheapest encoding on each."""
    measured = properties.card(pe.NoPE)
    return catalogue.pages([dataclasses.replace(measured, name=name) for name in pe.encodings()])


def test_every_encoding_has_a_page_in_both_languages(pages: dict[Path, str]) -> None:
    for folder in catalogue.FOLDERS.values():
        names = {path.stem for path in pages if path.parent == folder}
        assert names == {*pe.encodings(), "index"}
        assert set(pages[folder / "index.md"].split()) >= set(pe.encodings())


def test_its_links_lead_to_pages(pages: dict[Path, str]) -> None:
    for folder in catalogue.FOLDERS.values():
        index = pages[folder / "index.md"]
        assert all(f"[`{name}`]({name}.md)" in index for name in pe.encodings())


def test_the_index_shows_each_encoding_once_among_its_kind(pages: dict[Path, str]) -> None:
    for language, folder in catalogue.FOLDERS.items():
        groups = pages[folder / "index.md"].split("\n## ")[1:]
        shown = {
            name: group.splitlines()[0]
            for group in groups
            for name in re.findall(r"\{gallery\} (\w+)-thumbnail\n:alt: \1[:：]", group)
        }
        assert shown == {
            name: family(kind, language).capitalize() for name, kind in pe.encodings().items()
        }


def test_chinese_is_punctuated_as_chinese(pages: dict[Path, str]) -> None:
    for path, text in pages.items():
        if path.parent == catalogue.FOLDERS["zh"]:
            assert punctuate(text) == text, path.name


def test_what_has_no_chinese_words_is_shown_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pe, "encodings", lambda: {"stranger": Stranger})
    card = properties.Card("stranger", {"encoding": "", "new measure": "seldom"}, {})
    page = catalogue.page(card, "zh")
    for english in ("Says nothing in Chinese。", "strange。", "| new measure | seldom |"):
        assert english in page


def test_chinese_words_are_of_what_there_is() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} <= set(pe.encodings())
    assert set(FAMILIES) <= {kind.family for kind in pe.encodings().values()}


def test_pictures_are_drawn_in_both_languages_and_themes(tmp_path: Path) -> None:
    for language in gallery.LANGUAGES:
        (tmp_path / language).mkdir()
    gallery.draw("ordinal", tmp_path)
    shown = catalogue.pictures("ordinal", "en")
    for language in gallery.LANGUAGES:
        drawn = sorted(path.name for path in (tmp_path / language).iterdir())
        figures = gallery.chosen(gallery.example(pe.Ordinal))
        assert drawn == sorted(
            f"ordinal-{name}.{theme}.svg"
            for name in [*figures, gallery.THUMBNAIL]
            for theme in gallery.THEMES
        )
        assert all(f"{{gallery}} ordinal-{name}\n" in shown for name in figures)


@pytest.mark.parametrize("theme", gallery.THEMES)
def test_a_thumbnail_is_the_map_of_a_figure_without_words(theme: str) -> None:
    sinusoidal = gallery.example(pe.Sinusoidal)
    (axes,) = gallery.thumbnail(sinusoidal, theme=theme, language="en").axes
    (expected,) = plot.heatmap(sinusoidal, 64, theme=theme).axes
    exact(image_of(axes), image_of(expected))
    assert not texts(axes.figure)
    # What position leaves alone is of one colour, and sinks show beside a window.
    (axes,) = gallery.thumbnail(gallery.example(pe.NoPE), theme=theme).axes
    assert image_of(axes).unique().numel() == 1
    (axes,) = gallery.thumbnail(gallery.example(pe.Sinks), theme=theme).axes
    expected = measure.visibility([pe.SlidingWindow(4), pe.Sinks(2)], 32, causal=True)
    assert torch.equal(~image_of(axes).isnan(), expected)


def test_pictures_wait_until_they_are_in_sight_and_say_what_they_show(tmp_path: Path) -> None:
    from extension.gallery import pictures

    for theme in gallery.THEMES:
        (tmp_path / f"alibi-bias.{theme}.svg").touch()
    shown = pictures(tmp_path, "alibi-bias", "alibi: bias", tmp_path / "pages")
    assert [picture["uri"] for picture in shown] == [
        "../alibi-bias.light.svg", "../alibi-bias.dark.svg",
    ]  # fmt: skip
    assert [picture["classes"] for picture in shown] == [["only-light"], ["only-dark"]]
    assert all((each["alt"], each["loading"]) == ("alibi: bias", "lazy") for each in shown)
    with pytest.raises(FileNotFoundError, match=r"alibi-scores.*is missing"):
        pictures(tmp_path, "alibi-scores", "", tmp_path)


def test_every_encoding_has_pictures() -> None:
    for name, kind in pe.encodings().items():
        assert gallery.chosen(gallery.example(kind)), name
