"""The page is drawn from report.json, says all of it, and holds no script and no link."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from lab_runs import HOSTILE, Page
from typer.testing import CliRunner

from posenc.commands import app
from posenc.extend.options import METHODS, Options
from posenc.extend.page import page
from posenc.extend.run import extend
from posenc.extend.words import TEXTS
from posenc.words import Words

run = CliRunner().invoke
ENGLISH = Words("en", TEXTS)


@pytest.fixture(scope="module")
def written(folder: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "out"
    options = Options(folder, to=(400, 500), text=(text,), out=out, spans=2, needles=1)
    extend(options, lambda line: None)
    return out


def test_the_page_has_every_method_and_number(written: Path) -> None:
    data = json.loads((written / "report.json").read_text())
    html = (written / "report.html").read_text()
    assert list(data["methods"]) == list(METHODS)
    for name, method in data["methods"].items():
        assert f">{name}</th>" in html
        assert f"{method['targets']['500']['mean']:.3f}" in html
        assert set(method["targets"]) == {"75", "300", "400", "500"}
        assert set(method["windows"]) == {"400", "500"}
        assert len(method["short"]["spans"]) == 2
        assert set(method["passkey"]) == {"150", "400", "500"}
    assert set(data["sliding"]["targets"]) == {"400", "500"}
    for sentence in data["verdict"]["sentences"]:
        assert sentence.split(",")[0] in html
    assert "2 spans of text" in html
    assert html.count("<svg viewBox") >= 2


def test_the_page_is_drawn_from_the_json_alone(written: Path) -> None:
    data = json.loads((written / "report.json").read_text())
    assert str(page(data, ENGLISH)) in (written / "report.html").read_text()


def test_the_page_stands_alone_and_shows_names_as_they_are(written: Path) -> None:
    data = json.loads((written / "report.json").read_text())
    data["model"]["path"] = data["command"] = HOSTILE
    data["unavailable"] = {HOSTILE: HOSTILE}
    shown = Page(page(data, ENGLISH))
    assert not {"script", "img", "link", "style"} & set(shown.tags)
    assert HOSTILE in shown.text
    html = (written / "report.html").read_text()
    assert not re.search(r"https?://(?!www\.w3\.org)", html)


def test_a_method_within_the_trained_length_costs_what_it_changes(written: Path) -> None:
    methods = json.loads((written / "report.json").read_text())["methods"]
    assert methods["dynamic"]["short"]["spans"] == methods["none"]["short"]["spans"]
    assert methods["linear"]["short"]["spans"] != methods["none"]["short"]["spans"]
    assert "change" not in methods["none"]["short"]
    assert methods["dynamic"]["short"]["change"]["mean"] == 0.0


def test_the_command_repeats_itself(options: Options) -> None:
    given = replace(options, write="yarn", measures=("short",), methods=("none", "yarn"))
    words = given.command().split()
    assert words[:2] == ["posenc", "extend"]
    ended = run(app, words[1:])
    assert ended.exit_code == 0, ended.output
    assert f"config.json of yarn: {options.out / 'config.json'}" in ended.stdout
    config = json.loads((options.out / "config.json").read_text())
    assert config["rope_parameters"]["rope_type"] == "yarn"
    assert config["max_position_embeddings"] == 500
    data = json.loads((options.out / "report.json").read_text())
    assert data["command"] == given.command()
    again = run(app, [*words[1:-1], "sinks", "--json"])
    assert json.loads(again.stdout)["methods"] == data["methods"]


def test_zones_are_told_to_have_no_config(options: Options) -> None:
    given = replace(options, write="rerope", measures=("short",), methods=("none",))
    ended = run(app, given.command().split()[1:])
    assert ended.exit_code == 0
    assert "extend --write rerope: no config.json can say ReRoPE(" in ended.stdout
    assert not (options.out / "config.json").exists()
