"""The page that says which published model uses what, in both languages."""

import re
import sys
from pathlib import Path

import pytest

import posenc
from posenc.words import LANGUAGES, Language

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import published_models

MODELS = published_models.published()


def lines(language: Language) -> list[list[str]]:
    """Cells of every line that names a file."""
    rows = published_models.page(MODELS, language).splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [row for row in cells if re.fullmatch(r"`[^`]+`", row[-1])]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_file_has_its_lines_and_every_line_its_file(language: Language) -> None:
    found = lines(language)
    assert {row[-1].strip("`") for row in found} == {
        path.stem for path in published_models.FACTS.glob("*")
    }
    for row in found:
        assert len(row) == len(published_models.HEADS)
        assert re.match(r"\[[^]]+\]\(https://", row[0])
    # Each layer with attention of each part is counted on one line.
    held = sum(1 for model in MODELS for _ in model.spec.attention())
    assert sum(int(re.search(r"\d+", row[2])[0]) for row in found) == held


def test_both_languages_tell_the_same_in_their_own_words() -> None:
    english, chinese = (lines(language) for language in LANGUAGES)
    assert [row[0] for row in english] == [row[0] for row in chinese]
    assert not re.search("[\u4e00-\u9fff]", published_models.page(MODELS, "en"))


def test_what_is_known_of_a_model_stands_on_its_line() -> None:
    """Facts of the checkpoints themselves: gpt-oss and DeepSeek-V3."""
    of = {}
    for row in lines("en"):
        of.setdefault(row[-1].strip("`"), []).append(row)
    local, whole = of["gpt-oss-20b"]
    assert (local[2], local[4]) == ("12 of 24", "window 128")
    assert (whole[2], whole[4]) == ("12 of 24", "all before")
    assert "base 150000, half, YaRN 32 times, from 4096" in local[3]
    assert local[7] == "a learned sink per head"
    (latent,) = of["deepseek-v3"]
    assert "64 of 192 turn, from 128 on, interleaved" in latent[3]
    groups = {model.fact: published_models.grouped(model.spec.main) for model in MODELS}
    assert groups["deepseek-v3"] == "latent"
    assert groups["gemma-3-4b-it"] == "differ"
    assert groups["llama-2-7b"] == "rotary"
    assert groups["llama-3.1-8b"] == "stretched"
    assert groups["qwen3.5-9b"] == "images"
    assert groups["bloom-560m"] == "bias"
    assert groups["bert-base-uncased"] == "vectors"


def test_pages_of_encodings_name_who_uses_them() -> None:
    told = {name: published_models.users(name, MODELS, "en") for name in posenc.encodings()}
    assert "openai/gpt-oss-20b" in told["sink_logits"]
    assert "Llama-4-Scout-17B-16E-Instruct" in told["chunked"]
    assert "Qwen2.5-7B-Instruct-1M" in told["dual_chunk"]
    assert "more" in told["rotary"]
    assert told["kerple"] == ""
