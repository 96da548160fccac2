"""inspect.html, drawn from inspect.json alone."""

import copy
import json
import re
from html import escape
from pathlib import Path
from typing import Any

import pytest

from posenc.inspection.page import write_page
from posenc.inspection.pictures import (
    Line,
    Ticks,
    colour_limit,
    lines_picture,
    number_map,
    points_picture,
)
from posenc.inspection.run import inspect_model
from posenc.inspection.sentences import percent, ranges, sentences
from posenc.inspection.words import TEXTS
from posenc.models.loading import Loaded
from posenc.words import Words
from tests.support.small_models import bert, llama

pytest.importorskip("transformers")
ENGLISH = Words("en", TEXTS)


def data_of(model: Any) -> dict[str, Any]:
    found = inspect_model(Loaded(model, None), tokens=24)
    data = {"version": 1, "command": "posenc inspect x", "source": "some/<b>model"} | found
    # JSON holds all that a page is drawn from.
    return json.loads(json.dumps(data, allow_nan=False))


@pytest.fixture(scope="module")
def rotary() -> dict[str, Any]:
    return data_of(llama())


def test_layers_that_turn_otherwise_are_no_part_of_means(
    rotary: dict[str, Any], tmp_path: Path
) -> None:
    told = "means over the 1 of 2 that turn as layer 0 does"
    two = copy.deepcopy(rotary)
    two["layers"] = [copy.deepcopy(two["layers"][0]) for _ in range(2)]
    assert told not in write_page(tmp_path, two).read_text("utf-8")
    two["layers"][1]["pairs"]["wavelength"][-1] *= 2
    assert told in write_page(tmp_path, two).read_text("utf-8")


@pytest.fixture(scope="module")
def learned() -> dict[str, Any]:
    return data_of(bert())


class TestPage:
    def test_it_stands_alone(self, rotary: dict[str, Any], tmp_path: Path) -> None:
        html = write_page(tmp_path, rotary).read_text("utf-8")
        assert "http" not in html.replace("http://www.w3.org", "")
        assert "<script" not in html
        assert "prefers-color-scheme: dark" in html
        assert "<h1>What positions do in &lt;b&gt;model</h1>" in html
        assert "<b>model" not in html
        assert all(len(ids) == len(set(ids)) for ids in [re.findall(r'\bid="([^"]+)"', html)])

    def test_each_model_has_its_sections(
        self, rotary: dict[str, Any], learned: dict[str, Any], tmp_path: Path
    ) -> None:
        heads = []
        for data in (rotary, learned):
            html = write_page(tmp_path, data).read_text("utf-8")
            heads.append(re.findall(r"<h2>([^<]*)</h2>", html))
        both = ["Scores: content and position", "Attention: where heads look"]
        end = ["Shifts of all positions", "What was looked at", "How to read this"]
        assert heads == [[*both, "Rotary pairs", *end], ["The table of positions", *both, *end]]

    def test_every_sentence_of_the_summary_is_there(
        self, learned: dict[str, Any], tmp_path: Path
    ) -> None:
        html = write_page(tmp_path, learned).read_text("utf-8")
        assert learned["summary"]
        assert all(f"<li>{escape(sentence)}</li>" in html for sentence in learned["summary"])

    def test_a_model_of_which_nothing_was_seen_is_a_page(
        self, rotary: dict[str, Any], tmp_path: Path
    ) -> None:
        data = copy.deepcopy(rotary) | {"layers": [], "notes": ["Layers were not looked at."]}
        data["shifts"]["changes"] = []
        data["summary"] = sentences(data, ENGLISH)
        html = write_page(tmp_path, data).read_text("utf-8")
        assert "Layers were not looked at." in html
        assert "<figure" not in html

    def test_a_layer_without_attention_weights_is_left_out(
        self, rotary: dict[str, Any], tmp_path: Path
    ) -> None:
        data = copy.deepcopy(rotary)
        data["layers"][0] |= {"attention": None, "notes": ["its scores are capped"]}
        html = write_page(tmp_path, data).read_text("utf-8")
        assert "Layer 0: its scores are capped." in html
        assert "Attention: where heads look" in html


class TestColours:
    def test_one_outlier_does_not_fade_all_others(self) -> None:
        values = [[0.1 * (n % 7 - 3) for n in range(100)], [0.2] * 99 + [1e6]]
        assert colour_limit(values) == pytest.approx(0.3)

    def test_what_is_missing_or_zero(self) -> None:
        assert colour_limit([[None, 0.0]]) == 1.0
        assert colour_limit([]) == 1.0
        # Nearly all are zero, and the one that is not has a colour.
        assert colour_limit([[0.0] * 99 + [2.0]]) == 2.0

    def test_a_map_has_a_name_and_its_numbers_as_an_image(self) -> None:
        picture = number_map([[0.0, 1.0]], Ticks("layer", [3]), Ticks("head", [0, 1]), "a map")
        assert 'aria-label="a map"' in picture
        assert "data:image/png;base64" in picture
        assert ">3<" in picture

    @pytest.mark.parametrize("label", ["row", "行"])
    def test_the_name_of_rows_is_whole_beside_large_numbers(self, label: str) -> None:
        rows = Ticks(label, range(0, 32_000, 4000))
        picture = number_map([[0.0]] * 8, rows, Ticks("column", [0]), "a map")
        ((x,),) = [re.findall(rf' x="([-\d.]+)"[^>]*>{label}<', picture)]
        # What stands left of x: as much as letters are high, or the whole letter.
        assert float(x) > 9


class TestWordsInPictures:
    """matplotlib turns words about the corner where they begin, left of which their letters are."""

    def test_the_name_of_an_axis_is_whole_beside_its_numbers(self) -> None:
        points = [(-0.06, -0.06), (0.06, 0.125)]
        picture = points_picture(points, "one", "other", "points", ends=("first", "last"))
        assert turned(picture, "other") > 9.5

    def test_two_places_that_are_one_have_two_words(self) -> None:
        line = Line("q", [(1.0, 0.5), (1000.0, 1.5)])
        marks = [(128.0, "text"), (128.0, "trained")]
        picture = lines_picture([line], "x", "lines", log_x=True, marks=marks)
        assert abs(turned(picture, "text") - turned(picture, "trained")) > 8.5


def turned(picture: str, word: str) -> float:
    """Where a word that is turned stands, from the left, in points."""
    (told,) = re.findall(rf"<text ([^>]*)>{word}</text>", picture)
    assert "rotate(-90" in told
    (place,) = re.findall(r"(?: x=\"|translate\()([\d.]+)", told)
    return float(place)


class TestWords:
    def test_ranges_of_rows(self) -> None:
        assert ranges([[0, 0]], ENGLISH) == "row 0"
        assert ranges([[0, 1], [7, 7]], ENGLISH) == "rows 0 to 1 and 7"
        assert ranges([[n, n] for n in range(0, 12, 2)], ENGLISH) == "6 rows in 6 places"

    def test_percent(self) -> None:
        assert [percent(x) for x in (0, 0.0012, 0.099, 0.0996, 1)] == [
            "0%", "0.12%", "9.9%", "10%", "100%",
        ]  # fmt: skip
