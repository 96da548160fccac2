"""Pages of claims: the same numbers in both languages, those of the results, with their curves."""

import re
import sys
from pathlib import Path

import pytest
from prose import english, numbers

from posenc.analysis.plot.fonts import FILE
from posenc.claims import claims
from posenc.claims.kept import kept
from posenc.claims.words import TEXTS
from posenc.words import Words
from tests.support.pages import CHINESE, DOCS, ENGLISH

sys.path.append(str(DOCS.parent / "tools"))

import evidence
import evidence_figures
import generate
from evidence_texts import TEXTS as OWN

CODE = re.compile(r"^```.*?^```|`[^`]*`", re.MULTILINE | re.DOTALL)
KNOWN = [name for name in claims() if kept(name)]


def page(language: str, name: str) -> str:
    pages = {"en": ENGLISH, "zh": CHINESE}[language]
    return pages[Path(f"evidence/{name}.md")].read_text("utf-8")


def table(language: str, name: str) -> list[list[str]]:
    return [sorted(numbers(line)) for line in page(language, name).splitlines() if line[:1] == "|"]


@pytest.mark.parametrize("name", ["overview", *claims()])
def test_it_has_the_numbers_of_the_english_page(name: str) -> None:
    assert table("zh", name) == table("en", name)


@pytest.mark.parametrize("name", ["overview", *claims()])
def test_it_is_in_chinese(name: str) -> None:
    text = CODE.sub("", page("zh", name))
    if name in claims():
        text = text.replace(claims()[name].source, "")
    assert english(re.sub(r"^Intel.*$|^#.*$", "", text, flags=re.MULTILINE)) == []


@pytest.mark.parametrize("name", KNOWN)
def test_each_seed_and_each_length_is_on_its_page(name: str) -> None:
    found, text = kept(name), page("en", name)
    assert found is not None
    for label, arm in found["arms"].items():
        for seed, rows in arm["rows"].items():
            for row in (row for row in rows if row["kind"] != "by_position"):
                value = row["exact"] / row["examples"] if "exact" in row else row["loss"]
                line = rf"^\| {label} \| {seed} \|.* {value:.3f} .*\|$"
                assert re.search(line, text, re.MULTILINE), (label, seed, row["length"])
        assert arm["config"]["steps"] == 0 or f"{arm['config']['learning_rate']:g}" in text
    assert found["command"] in text


@pytest.mark.parametrize("name", KNOWN)
def test_a_model_that_was_trained_by_others_is_told_by_its_name(name: str) -> None:
    """Its configuration has the sizes of our own."""
    found, text = kept(name), page("en", name)
    assert found is not None
    for label, arm in found["arms"].items():
        config = arm["config"]
        size = "{depth}, {dim}, {heads}".format(**config)
        size = f"`{config['model']}`" if "model" in config else size
        assert re.search(rf"^\| {label} \| .* \| {size} \| {config['steps']} ", text, re.MULTILINE)


def test_nothing_is_said_beyond_the_train_length_of_what_was_not_learned() -> None:
    marked = [line for line in page("en", "overview").splitlines() if "†" in line and "|" in line]
    assert marked
    for line in marked:
        _, _, first, *beyond, _ = line.split("|")
        assert "†" in first
        assert {cell.strip() for cell in beyond} == {""}


def test_a_page_of_no_claim_is_stale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for language in ("en", "zh"):
        folder = tmp_path / "docs" / language / "evidence"
        folder.mkdir(parents=True)
        (folder / "gone.md").write_text("")
        (folder / "kept.md").write_text("")
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    pages = {tmp_path / "docs" / x / "evidence" / "kept.md": "" for x in ("en", "zh")}
    assert [path.name for path in generate.gone(pages)] == ["gone.md", "gone.md"]


def test_a_metric_without_words_of_its_own_is_named() -> None:
    say = Words("en", {**TEXTS, **OWN})
    assert evidence.unit("reach", say) == "reach at each length."


def test_curves_are_drawn_in_both_themes_and_languages(tmp_path: Path) -> None:
    for language in ("en", "zh"):
        (tmp_path / language).mkdir()
    evidence_figures.draw("alibi_early_tokens", tmp_path)
    assert len([*tmp_path.rglob("claim-alibi_early_tokens.*.svg")]) == 4
    # A claim that has not been run has no figure, and its page asks for none.
    without = [name for name in claims() if name not in KNOWN]
    for name in without:
        evidence_figures.draw(name, tmp_path)
        assert "{gallery}" not in page("en", name)
    assert len([*tmp_path.rglob("*.svg")]) == 4
    asked = {name for name in KNOWN if f"{{gallery}} claim-{name}\n" in page("en", name)}
    assert asked == {*KNOWN}


def test_the_font_has_every_letter_of_the_curves() -> None:
    from fontTools.ttLib import TTFont

    letters = {ord(x) for _, text in evidence_figures.TEXTS.values() for x in text}
    assert {x for x in letters if x >= 0x2E80} <= {*TTFont(FILE).getBestCmap()}
