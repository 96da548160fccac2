"""The report in Chinese: the page of the English report, in other words."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from lab_runs import Page
from prose import HAN, check_pair, english, numbers, said
from typer.testing import CliRunner

from posenc.commands import app
from posenc.extend.options import MEASURES, Options
from posenc.extend.report import write_report
from posenc.extend.sentences import sentences
from posenc.extend.tune.settings import Tuning
from posenc.extend.words import TEXTS
from posenc.words import Words

run = CliRunner().invoke


@pytest.fixture(scope="module")
def chosen(folder: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Options:
    """Everything that a page can show, in Chinese."""
    return Options(
        folder,
        to=(400, 500),
        methods=("none", "yarn", "self_extend"),
        measures=MEASURES,
        text=(text,),
        out=tmp_path_factory.mktemp("language") / "out",
        spans=2,
        needles=1,
        tuning=Tuning(2, 32, 0.02, 4),
        language="zh",
    )


@pytest.fixture(scope="module")
def printed(chosen: Options) -> str:
    ended = run(app, chosen.command().split()[1:])
    assert ended.exit_code == 0, ended.output
    assert HAN.search(ended.stderr)
    assert english(ended.stderr) == []
    return ended.stdout


def test_it_is_spoken_in_the_terminal(chosen: Options, printed: str) -> None:
    assert english(printed) == []
    assert "损失，读" in printed
    assert "（训练 2 步）" in printed
    assert f"报告：{chosen.out / 'report.html'}" in printed


def test_the_page_is_in_chinese_with_the_numbers_of_the_english_one(
    chosen: Options, printed: str, tmp_path: Path
) -> None:
    html = (chosen.out / "report.html").read_text("utf-8")
    data = json.loads((chosen.out / "report.json").read_text("utf-8"))
    theirs = write_report(tmp_path, data).read_text("utf-8")
    assert english(said(html)) == []
    assert Page(html).tags == Page(theirs).tags
    # Long names are cut in pictures.
    tables = [Page(re.sub("<svg.*?</svg>", "", page, flags=re.S)).text for page in (html, theirs)]
    assert numbers(tables[0]) == numbers(tables[1])
    assert data["verdict"]["sentences"] == sentences(data, data["verdict"], Words("en", TEXTS))


@pytest.mark.parametrize("key", TEXTS)
def test_both_languages_say_everything(key: str) -> None:
    check_pair(*TEXTS[key])


def test_the_language_changes_no_choice(chosen: Options) -> None:
    commands = [replace(chosen, language=x).command().split() for x in ("en", "zh")]
    assert [a for a, b in zip(*commands, strict=True) if a != b] == ["en"]
