"""The report in Chinese: the page of the English report, in other words."""

import json
from pathlib import Path

import pytest
from lab_runs import COMMAND, LENGTHS, Page, add_known, add_run, runs_of
from prose import HAN, english, numbers, said

from posenc.lab.folder import RESULTS, append_row
from posenc.lab.report import Report, write_report

ERROR = "out of luck"


def add_everything(out: Path) -> None:
    """Runs of which the page has something to say in every section."""
    add_known(out)
    add_run(out, "rotary", 2, (), end="failed", error=ERROR)
    add_run(out, "t5", 0, (), end="unfinished")
    add_run(out, "alibi", 0, (9.0, 9.0, 9.0, 9.0), steps=100, started="2020-01-01")
    for seed in (0, 1):
        add_run(out, "wild", seed, (1.8, 2.0, 9.0, 9.0 if seed else None), reason=ERROR)
        add_run(out, "idle", seed, tuple(2.3 + 0.01 * seed for _ in LENGTHS))
        losses = (1.8, 2.0, None, None) if seed else (1.8, 2.0, 9.0, 9.0)
        add_run(out, "lost", seed, losses, reason="FloatingPointError: the loss is not finite")
    for folder in (out / "runs").glob("learned-*"):
        row = {"kind": "loss", "protocol": "windows", "length": 128, "loss": 2.0}
        append_row(folder / RESULTS, row)
        append_row(folder / RESULTS, {"kind": "done", "seconds": 1.0})


def one_seed(out: Path) -> None:
    add_known(out, seeds=1)


def ties(out: Path) -> None:
    for seed in (0, 1):
        add_run(out, "alibi", seed, (1.85 + 0.02 * seed, 1.85, 1.85, 1.85))
        add_run(out, "t5", seed, (1.86, 1.86, 1.86, 1.86 - 0.02 * seed))


def undecided(out: Path) -> None:
    for seed in (0, 1):
        add_run(out, "alibi", seed, (1.85, 1.85, 1.86, 1.85 + 0.2 * seed))
        add_run(out, "t5", seed, (1.86, 2.8 + 0.4 * seed, 2.9, 3.0))


def alone(out: Path) -> None:
    for seed in (0, 1):
        add_run(out, "alibi", seed, (1.85, 1.84, 1.83, 1.83))


def unfinished(out: Path) -> None:
    add_run(out, "t5", 0, (), end="unfinished")


def none(out: Path) -> None:
    """No run at all."""


@pytest.fixture(params=[add_everything, one_seed, ties, undecided, alone, unfinished, none])
def reports(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Report, Report, Page, Page]:
    """The report of the same runs in English and in Chinese, and both pages."""
    request.param(tmp_path)
    runs, pages = runs_of(tmp_path), []
    written = []
    for language in ("en", "zh"):
        written.append(write_report(tmp_path, runs, COMMAND, language))
        pages.append(Page(written[-1].page.read_text("utf-8")))
    return written[0], written[1], pages[0], pages[1]


def test_it_is_in_chinese(reports: tuple[Report, Report, Page, Page]) -> None:
    _, report, _, page = reports
    html = report.page.read_text("utf-8")
    assert english(said(html).replace(ERROR, "")) == []
    assert all(map(HAN.search, report.said))
    assert all(sentence in page.text for sentence in report.said)
    assert '<html lang="zh-CN">' in html


def test_it_has_the_numbers_of_the_english_one(
    reports: tuple[Report, Report, Page, Page],
) -> None:
    theirs, ours, english_page, page = reports
    assert json.dumps(ours.data) == json.dumps(theirs.data)
    assert numbers(page.text) == numbers(english_page.text)
    assert page.tags == english_page.tags
    for chinese, sentence in zip(ours.said, theirs.said, strict=True):
        assert numbers(chinese) == numbers(sentence)
