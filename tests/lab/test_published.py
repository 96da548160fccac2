"""What a report says of published claims: those of the encodings that it has, and no others."""

from pathlib import Path

import pytest
from lab_runs import COMMAND, Page, add_known, runs_of
from prose import HAN

from posenc.claims import claims
from posenc.claims.kept import kept
from posenc.claims.published import published
from posenc.lab.published import Published
from posenc.lab.report import Report, write_report
from posenc.words import Language

ALIBI = Published("alibi_keeps", ("ALiBi keeps it.", "ALiBi 保得住。"), "holds", ("alibi",))
BOTH = Published("one_of_two", ("One is best.", "其一最好。"), "fails", ("alibi", "rotary"))
OTHER = Published("kerple_too", ("KERPLE too.", "KERPLE 也是。"), "undecided", ("alibi", "kerple"))


def written(out: Path, *claimed: Published, language: Language = "en") -> tuple[Report, Page]:
    add_known(out)
    report = write_report(out, runs_of(out), COMMAND, language, claimed)
    return report, Page(report.page.read_text("utf-8"))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_claims_about_what_was_compared_are_named_with_their_command(
    tmp_path: Path, language: Language
) -> None:
    report, page = written(tmp_path, ALIBI, BOTH, OTHER, language=language)
    for one in (ALIBI, BOTH):
        assert f"posenc claims show {one.name}" in page.text
        assert one.says[language == "zh"] in page.text
    assert OTHER.name not in page.text
    assert [one["name"] for one in report.data["claims"]] == [ALIBI.name, BOTH.name]
    assert report.data["claims"][1] == {
        "name": "one_of_two",
        "says": "One is best.",
        "outcome": "fails",
        "encodings": ["alibi", "rotary"],
        "command": "posenc claims show one_of_two",
    }
    assert bool(HAN.search(page.text)) == (language == "zh")


def test_without_any_nothing_is_said(tmp_path: Path) -> None:
    report, page = written(tmp_path, OTHER)
    assert "published" not in page.text
    assert report.data["claims"] == []


def test_they_have_results_and_are_about_whole_encodings_alone() -> None:
    found = {one.name: one for one in published()}
    assert found["alibi_extrapolates"].encodings == ("alibi",)
    for name, one in found.items():
        result = kept(name)
        assert result is not None
        assert one.outcome == result["outcome"]
        assert one.says == claims()[name].says
    # Heads of another size, weights that are given another encoding, less text, another task.
    elsewhere = {"head_size_decides", "window_keeps_loss", "tables_need_text", "attention_dilutes"}
    assert not elsewhere & {*found}
