"""What the doctor says in words: every file in both languages, and what stands in the docs."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from posenc.commands import app
from posenc.models.doctor import Examination, examine
from posenc.models.doctor.described import BESIDES
from posenc.models.doctor.report import Language, lines
from posenc.models.read import read
from posenc.models.read.families import FAMILIES
from tests.support.doctor_cases import FACTS, LLAMA, SICK

DOCS = Path(__file__).parents[2] / "docs"
CHINESE = re.compile(r"[\u4e00-\u9fff]")
# Two words in a row that are no names: those have capitals, digits, dots or underscores.
ENGLISH = re.compile(r"(?<![\w.=-])[a-z]{2,} [a-z]{2,}(?![\w.=(])")


def fact(name: str) -> dict[str, Any]:
    return json.loads(FACTS[name].read_text("utf-8"))["config"]


def sentences(examination: Examination, language: Language) -> Iterator[str]:
    """Its lines without the heads of findings, which hold names alone, and without their ends."""
    whole = list(lines(examination, language))
    heads = {after for before, after in pairwise(whole) if not before}
    for line in whole[1:]:
        if line and line not in heads and "https://" not in line:
            yield re.sub(r": \{.*\}$|：\{.*\}$", "", line)


def in_both_languages(examination: Examination) -> None:
    pairs = zip(sentences(examination, "en"), sentences(examination, "zh"), strict=True)
    for english, chinese in pairs:
        assert not CHINESE.search(english)
        assert CHINESE.search(chinese)
        assert not ENGLISH.search(chinese)


@pytest.mark.parametrize("name", FACTS)
def test_every_file_is_told_in_both_languages(name: str) -> None:
    """As it is, and at a length that no file states, so that more is found."""
    in_both_languages(examine(fact(name)))
    in_both_languages(examine(fact(name), target_length=50_000_000))


@pytest.mark.parametrize("name", SICK)
def test_every_fault_is_told_in_both_languages(name: str) -> None:
    in_both_languages(examine(SICK[name][2]))


def test_one_layer_and_one_head_are_one() -> None:
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
    told = "\n".join(lines(examine(LLAMA | sizes, target_length=10**6)))
    assert "text: 1 layer, " in told
    assert ", 1 head on 1 of " in told
    assert " 1 layers" not in told


def test_what_layers_do_besides_is_known_in_chinese() -> None:
    """Of every published file; others are of GGUF files, of Qwen3's files for vLLM, and of Dory."""
    said = {
        re.sub(r"\d+", "{}", sentence)
        for name in FACTS
        for _, _, layer in read(fact(name)).attention()
        for sentence in layer.beyond
    }
    assert BESIDES.keys() - said == {
        "a state-space mixer stands beside the attention",
        "prompts beyond {} tokens see a sparse pattern of keys",
        "each dimension of a query is scaled after it has turned",
        "it runs {} times over",
    }
    assert said <= BESIDES.keys()
    for english, chinese in BESIDES.items():
        assert english.count("{}") == chinese.count("{}")


def test_a_part_that_no_rule_reads_is_named_without_a_sentence() -> None:
    assert "gemma3n" in FAMILIES
    values = {"model_type": "gemma3n", "text_config": {**LLAMA, "model_type": "llama"}}
    spec = read(values | {"vision_config": {"model_type": "no_tower"}})
    assert spec.unread == ("vision_config (model_type 'no_tower')",)


def blocks(language: str) -> list[list[str]]:
    """The excerpts that are no code, line by line."""
    page = (DOCS / language / "howto" / "checkpoints.md").read_text("utf-8")
    return [block.splitlines() for block in re.findall(r"^```text\n(.*?)^```", page, re.M | re.S)]


def output(command: list[str]) -> list[str]:
    ended = CliRunner().invoke(app, command)
    return (ended.stderr + ended.stdout).splitlines()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_excerpts_of_the_docs_are_what_is_printed(language: str, tmp_path: Path) -> None:
    """Of the doctor a part, and of flags as many as the page shows."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(fact("gpt-oss-20b")))
    told, (prompt, *written) = blocks(language)
    printed = output(["doctor", str(file), "--lang", language])
    start = printed.index(told[0])
    assert printed[start : start + len(told)] == told

    assert prompt == "$ posenc convert config.json --to llama.cpp"
    printed = output(["convert", str(file), "--to", "llama.cpp"])
    assert printed[:-1] == written[:-1]
    shown, dots, _ = written[-1].partition(" ...")
    assert dots
    assert printed[-1].startswith(shown + " ")
