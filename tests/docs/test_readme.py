"""The code of both READMEs runs, and so do their commands."""

import re
import shlex
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import posenc as pe
from posenc.commands import app
from tests.support.pages import code

ROOT = Path(__file__).parents[2]
READMES = ("README.md", "README.zh-CN.md")


def blocks(name: str, language: str) -> list[str]:
    text = (ROOT / name).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(name: str) -> list[list[str]]:
    lines = "".join(blocks(name, "sh")).splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.mark.graph
@pytest.mark.parametrize("name", READMES)
def test_all_of_its_code_runs(name: str) -> None:
    torch.manual_seed(0)
    # The reader's own encoding, of which the last block speaks.
    names: dict[str, object] = {"MyEncoding": pe.Rotary}
    found = blocks(name, "python")
    assert len(found) == 5
    for block in found:
        exec(compile(block, name, "exec"), names)
    assert names["out"].shape == (1, 8, 512, 64)
    assert names["logits"].shape == (1, 1, 256)


@pytest.mark.parametrize("name", READMES)
def test_its_pictures_are_there_and_large_enough_to_read(name: str) -> None:
    text = (ROOT / name).read_text()
    pictures = re.findall(r'(?:srcset|src)="([^"]+)"', text) + re.findall(r"!\[.+\]\((.+)\)", text)
    assert len(pictures) == 5
    for path in (ROOT / picture for picture in pictures):
        assert path.stat().st_size < 1_000_000
        if path.suffix == ".svg":
            (width,) = re.findall(r'^<svg [^>]* width="([\d.]+)"', path.read_text())
            assert float(width) > 450
        else:
            with Image.open(path) as picture:
                assert picture.width > 450
                # The others are for readers who ask that nothing move.
                assert (getattr(picture, "n_frames", 1) > 20) == (path.suffix == ".gif")


@pytest.mark.parametrize(("name", "language"), [(READMES[0], "en"), (READMES[1], "zh")])
def test_the_docs_open_with_the_same_sentence_and_lines(name: str, language: str) -> None:
    readme, front = (ROOT / name, ROOT / "docs" / language / "index.md")
    assert readme.read_text().split("\n\n")[1] == front.read_text().split("\n\n")[1]
    assert code(readme)[0] == code(front)[0]


def test_nobody_is_told_to_install_posenc_from_an_index() -> None:
    """It is on none: README installs it from a clone, and so do docs, hints and docstrings."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "posenc").rglob("*.py")]
    wrong = re.compile(r"pip\s+install\s+[\"']?posenc\b")
    assert [page for page in pages if wrong.search(page.read_text())] == []


def test_no_line_ends_within_chinese() -> None:
    """Markdown makes a space of it, which Chinese does not write; the site has its own way."""
    text = (ROOT / "README.zh-CN.md").read_text()
    wide = "[\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef\u2014\u2018-\u201d\u2026]"
    assert re.findall(rf"^.*{wide}[*_ ]*\n(?=[*_ ]*{wide})", text, flags=re.MULTILINE) == []


@pytest.mark.parametrize("name", READMES)
def test_its_commands_are_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of posenc run; of make there are targets, and their arguments are known."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    found = commands(name)
    assert {words[0] for words in found} <= {"make", "posenc", "pip"}
    for words in found:
        if words[0] == "make":
            assert words[1] in targets, words
            given = [word.removeprefix("ARGS=") for word in words[2:]]
            words = ["posenc", words[1], *shlex.split(" ".join(given)), "--help"] if given else []
        if words and words[0] == "posenc":
            ended = CliRunner().invoke(app, words[1:])
            assert ended.exit_code == 0, ended.output
