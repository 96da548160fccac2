"""The page of corrections: both languages blame the same notes, and its losses are the lab's."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGLISH, CHINESE = (
    (ROOT / "docs" / language / "corrections.md").read_text("utf-8") for language in ("en", "zh")
)
LOG = (ROOT / "posenc" / "lab" / "LOG.md").read_text("utf-8")
NAMES = {
    "expansion": "展开",
    "circles": "圆",
    "outline": "提纲",
    "worked example": "算例",
    "odd and even": "奇偶",
}
VERDICTS = {"Wrong": "错", "Loose": "不严"}


def entries(text: str) -> list[str]:
    return re.split(r"^### .*\n\n", text, flags=re.MULTILINE)[1:]


def test_the_notes_are_named_alike_in_both_languages() -> None:
    for text, names in ((ENGLISH, NAMES.keys()), (CHINESE, NAMES.values())):
        assert re.findall(r"^- \*\*(.+?)\*\*", text, re.MULTILINE) == list(names)


def test_each_entry_blames_the_same_notes_in_both_languages_and_proves_it() -> None:
    for english, chinese in zip(entries(ENGLISH), entries(CHINESE), strict=True):
        theirs = re.match(r"\*(\w+)，([^*]+)\*。", chinese)
        ours = re.match(r"\*(\w+); ([^*]+)\.\* ", english)
        assert ours, english[:80]
        assert theirs, chinese[:80]
        assert VERDICTS[ours[1]] == theirs[1], english[:80]
        assert [NAMES[name] for name in ours[2].split(", ")] == theirs[2].split("、"), english[:80]
        assert "\nassert " in english, english[:80]
        assert "\nassert " in chinese, chinese[:80]


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_its_losses_are_those_of_the_lab(text: str) -> None:
    table = LOG[LOG.index("| | 64 | 128 | 256 | 512 |") :].partition("\n\n")[0]
    rows = [re.split(r" *\| *", line.strip("| ")) for line in table.splitlines()[2:]]
    at_64, at_512 = ({name: row[i] for name, *row in rows} for i in (0, 3))

    def cited(link: str) -> list[str]:
        (entry,) = (entry for entry in entries(text) if link in entry)
        return re.findall(r"\b\d\.\d{3}\b", entry.partition("```")[0])

    encodings = {name: loss for name, loss in at_64.items() if name != "none"}
    assert max(encodings, key=lambda name: encodings[name]) == "sinusoidal"
    assert min(encodings, key=lambda name: encodings[name]) == "t5"
    without = [at_64["none"], at_64["t5"], at_64["sinusoidal"], at_512["none"]]
    beyond = [at_512[name] for name in ("learned", "rotary", "sinusoidal", "alibi", "t5")]
    assert cited("2203.16634") == without + beyond

    reach = [losses[name] for name in ("alibi", "learned") for losses in (at_64, at_512)]
    assert cited("pe.Learned(16, max_length=64).embed") == reach
