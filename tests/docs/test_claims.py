"""The pages on the source notes: each claim has a verdict, a lesson and code, in both languages."""

import re
from pathlib import Path

import pytest

from tests.support.pages import CHINESE, ENGLISH, blocks

VERDICTS = {"en": r"\*(Right|Loose|Wrong)[.*]", "zh": r"\*(对|不严|错)\*"}
ALIKE = dict(zip(("对", "不严", "错"), ("Right", "Loose", "Wrong"), strict=True))
# The numbers of the claims that a line of code shows.
SHOWN = re.compile(r"# (\d+(?:, \d+)*)(?=$|[:,])", re.MULTILINE)
PAGES = {"en": ENGLISH, "zh": CHINESE}
NOTES = sorted(path for path in ENGLISH if re.search(r"^\*\*1\. ", ENGLISH[path].read_text(), re.M))


def claims(text: str) -> dict[int, str]:
    ends = r"(?=\n\*\*\d+\. |\n```|\n#|\Z)"
    found = re.findall(rf"^\*\*(\d+)\. (.*?){ends}", text, re.MULTILINE | re.DOTALL)
    numbers = [int(number) for number, _ in found]
    assert numbers == list(range(1, len(found) + 1))
    return dict(zip(numbers, (said for _, said in found), strict=True))


def test_all_five_notes_have_a_page() -> None:
    assert len(NOTES) == 5


@pytest.mark.parametrize("language", PAGES)
@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.stem)
def test_each_claim_leads_to_a_lesson_and_is_shown_in_code(note: Path, language: str) -> None:
    page = PAGES[language][note]
    shown = ", ".join(SHOWN.findall("\n".join(blocks(page))))
    for number, said in claims(page.read_text()).items():
        assert "](../learn/" in said or "](../howto/" in said, number
        assert str(number) in shown.split(", "), number


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.stem)
def test_verdicts_are_the_same_in_both_languages(note: Path) -> None:
    english, chinese = (
        [re.search(rf"\*\*\s{VERDICTS[language]}", said) for said in claims(text).values()]
        for language, text in ((key, pages[note].read_text()) for key, pages in PAGES.items())
    )
    assert all(english)
    assert [verdict[1] for verdict in english] == [ALIKE[verdict[1]] for verdict in chinese]
