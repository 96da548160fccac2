"""`posenc inspect` in Chinese: the terminal and the page of the English ones, in other words."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_runs import Page
from prose import HAN, check_pair, english, numbers, said
from typer.testing import CliRunner

from posenc.commands import app
from posenc.inspection.page import write_page
from posenc.inspection.run import inspect_model
from posenc.inspection.sentences import sentences
from posenc.inspection.words import TEXTS
from posenc.models.loading import Loaded
from posenc.words import Words
from tests.support.small_models import bert, gemma2, llama

pytest.importorskip("transformers")
CHINESE = Words("zh", TEXTS)
# All that a page can show: a learned table, rotary pairs, and notes of what was not looked at.
MODELS: dict[str, tuple[Callable[[], Any], int]] = {
    "rotary": (llama, 24),
    "learned": (lambda: bert(initializer_range=0.2), 32),
    "learned, to its end": (bert, 160),
    "capped": (lambda: gemma2(attn_logit_softcapping=0.05), 16),
}


@pytest.fixture(scope="module", params=MODELS)
def data(request: pytest.FixtureRequest) -> dict[str, Any]:
    make, tokens = MODELS[request.param]
    found = inspect_model(Loaded(make(), None), tokens=tokens)
    return {"version": 1, "command": "posenc inspect x", "source": "some/model"} | found


def test_the_page_is_in_chinese_with_the_numbers_of_the_english_one(
    data: dict[str, Any], tmp_path: Path
) -> None:
    theirs = write_page(tmp_path, data).read_text("utf-8")
    html = write_page(tmp_path, data, "zh").read_text("utf-8")
    assert english(said(html)) == []
    assert '<html lang="zh-CN">' in html
    ours, others = Page(html), Page(theirs)
    assert ours.tags == others.tags
    # Chinese writes the 2 of a norm as a word.
    assert numbers(ours.text.replace("二范数", "2")) == numbers(others.text)


def test_every_sentence_is_on_the_page(data: dict[str, Any], tmp_path: Path) -> None:
    html = write_page(tmp_path, data, "zh").read_text("utf-8")
    told = sentences(data, CHINESE)
    assert len(told) == len(data["summary"])
    assert all(HAN.search(sentence) and f"<li>{sentence}</li>" in html for sentence in told)


def test_the_json_is_in_english(data: dict[str, Any]) -> None:
    assert not HAN.search(json.dumps(data, ensure_ascii=False))


def test_it_is_spoken_in_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    llama().save_pretrained(tmp_path)
    out = tmp_path / "out"
    words = ["inspect", str(tmp_path), "--tokens", "24", "--out", str(out), "--language", "zh"]
    # The page shows the command.
    monkeypatch.setattr(sys, "argv", ["posenc", *words])
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 0, ended.output
    assert english(ended.stdout) == []
    assert "凭距离" in ended.stdout
    assert f"页面：{out / 'inspect.html'}" in ended.stdout
    assert english(said((out / "inspect.html").read_text("utf-8"))) == []
    kept = json.loads((out / "inspect.json").read_text("utf-8"))
    assert all(line in ended.stdout for line in sentences(kept, CHINESE))
    assert kept["summary"] == sentences(kept, Words("en", TEXTS))


@pytest.mark.parametrize("key", TEXTS)
def test_both_languages_say_everything(key: str) -> None:
    check_pair(*TEXTS[key])
