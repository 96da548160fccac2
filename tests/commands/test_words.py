"""Texts in two languages, and what fills them in."""

from pathlib import Path

import pytest

import posenc as pe
from posenc.words import Texts, Words

TEXTS: Texts = {
    "held": ("{names} {names:holds|hold} in {runs:# run|# runs}", "{names} 在 {runs} 次中保持"),
    "page": ("page: {path} {note}", "页面： {path} {note}"),
    "read": ("{count:,} tokens, {share:.0%}", "{count:,} 个词元，{share:.0%}"),
}
ENGLISH, CHINESE = Words("en", TEXTS), Words("zh", TEXTS)


def test_names_are_joined_and_verbs_follow_them() -> None:
    assert ENGLISH("held", names=["a"], runs=1) == "a holds in 1 run"
    assert ENGLISH("held", names=("a", "b", "c"), runs=2) == "a, b and c hold in 2 runs"
    assert CHINESE("held", names=("a", "b", "c"), runs=1) == "a、b 和 c 在 1 次中保持"
    assert ENGLISH.listed([]) == ""


def test_numbers_are_formatted_as_texts_ask() -> None:
    assert ENGLISH("read", count=4096, share=0.5) == "4,096 tokens, 50%"
    assert CHINESE("read", count=4096, share=0.5) == "4,096 个词元，50%"


def test_another_language_is_refused() -> None:
    with pytest.raises(pe.SettingError, match="language='fr'"):
        Words("fr", TEXTS)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_keeps_its_spaces(kind: type[str | Path]) -> None:
    path = kind("我的 结果/报告 一.html")
    assert CHINESE("page", path=path, note="完") == "页面：我的 结果/报告 一.html 完"
    assert CHINESE("page", path=kind("结果"), note="完") == "页面：结果完"
