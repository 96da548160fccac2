"""The page and the JSON that a comparison leaves, from real run folders."""

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lab_runs import COMMAND, HOSTILE, KNOWN, LENGTHS, Page, add_known, add_run, report, runs_of

from posenc.atomic_files import write_json
from posenc.lab.config import RunConfig
from posenc.lab.folder import MANIFEST, RESULTS, append_row
from posenc.lab.report import write_report

Known = tuple[Path, Page, str, dict[str, Any]]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    out = tmp_path_factory.mktemp("known")
    add_known(out)
    return out, *report(out)


def test_the_verdict_comes_first_and_names_every_encoding(known: Known) -> None:
    _, page, _, data = known
    headline = "alibi holds to 8 times the train length; none and rotary degrade; learned breaks"
    assert data["headline"] == headline
    assert headline in page.text
    assert data["rankings"]["64"]["best"] == "rotary"
    assert data["rankings"]["512"]["best"] == "alibi"
    assert data["rankings"]["512"]["ties"] == []
    assert "At 512 learned and rotary are worse than no position encoding at all." in page.text
    assert "every length scores the same 4,096 bytes" in page.text


def test_the_page_says_what_was_run_and_how_to_repeat_it(known: Known) -> None:
    out, page, html, _ = known
    for fact in (
        "432,100",
        "28.2",
        "181",
        "63",
        "a <cpu>",
        "123,456",
        f"learning rate: {RunConfig.learning_rate}",
    ):
        assert fact in page.text, fact
    assert COMMAND in page.text
    assert "8 done" in page.text
    assert str(out) not in html


def test_the_page_needs_nothing_from_elsewhere_and_no_script(known: Known) -> None:
    _, page, html, _ = known
    assert "http" not in html
    assert not {"script", "link", "img", "iframe", "object", "foreignobject"} & set(page.tags)
    assert all(address.startswith("#") for address in page.addresses)
    assert all(found.startswith("#") for found in re.findall(r"url\(([^)]*)\)", html))
    assert "@import" not in html


def test_pictures_follow_the_page_and_speak(known: Known) -> None:
    _, page, html, _ = known
    assert page.tags["figure"] == 4
    assert html.count('role="img"') == 4
    assert re.search(r'aria-label="Loss [^"]*alibi 1\.8\d at 64 and 1\.8\d at 512', html)
    assert not re.search(r"#[ab]000\d\d", html), "a placeholder colour is left"
    assert "var(--hue-0)" in html
    duplicates = [name for name, count in Counter(page.ids).items() if count > 1]
    assert duplicates == []
    assert {address.removeprefix("#") for address in page.addresses} <= set(page.ids)


def test_ties_are_called_ties(tmp_path: Path) -> None:
    for seed in (0, 1):
        add_run(tmp_path, "alibi", seed, (1.85 + 0.02 * seed, 1.85, 1.85, 1.85))
        add_run(tmp_path, "t5", seed, (1.86, 1.86, 1.86, 1.86 - 0.02 * seed))
    page, _, data = report(tmp_path)
    assert len(data["rankings"]["512"]["ties"]) == 1
    assert "cannot be told apart" in page.text
    assert re.search(r"show a difference of \d+\.\d+ or more in four of five cases", page.text)
    assert "is best" not in page.text


def test_one_seed_gives_numbers_and_no_ranking(tmp_path: Path) -> None:
    add_known(tmp_path, seeds=1)
    page, _, data = report(tmp_path)
    assert data["rankings"] == {}
    assert {one["category"] for one in data["encodings"].values()} == {"not judged"}
    assert data["encodings"]["rotary"]["loss"]["targets"]["512"] == {
        "interval": None,
        "seeds": {"0": 2.84},
    }
    assert "One seed each: numbers, but no ranking" in page.text
    assert "nothing is ranked" in page.text
    assert "2.84" in page.text
    assert "Verdict by encoding" not in page.text


def test_a_single_encoding_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    for seed in (0, 1):
        add_run(tmp_path, "alibi", seed, (1.85, 1.85, 1.85, 1.85 + 0.001 * seed))
    page, _, data = report(tmp_path)
    assert data["encodings"]["alibi"]["category"] == "holds"
    assert "nothing to compare it with" in page.text


def test_without_a_longer_test_length_nothing_is_judged(tmp_path: Path) -> None:
    for seed in (0, 1):
        for name in ("alibi", "none"):
            config = RunConfig(encoding=name, seed=seed, test_lengths=(64,))
            folder = tmp_path / "runs" / config.name
            folder.mkdir(parents=True)
            write_json(folder / MANIFEST, {"config": config.to_json()})
            for protocol in ("windows", "targets"):
                row = {"kind": "loss", "protocol": protocol, "length": 64, "loss": 2.0 + seed / 100}
                append_row(folder / RESULTS, row)
            append_row(folder / RESULTS, {"kind": "done"})
    page, _, data = report(tmp_path)
    assert "no test length is longer than the train length of 64" in page.text
    assert list(data["rankings"]) == ["64"]


def test_failed_and_unfinished_runs_show_with_their_reason(tmp_path: Path) -> None:
    add_known(tmp_path)
    add_run(tmp_path, "shaw", 0, (), end="failed", error="LabError: the loss became nan")
    add_run(tmp_path, "t5", 0, (), end="unfinished")
    page, _, data = report(tmp_path)
    assert "LabError: the loss became nan" in page.text
    assert "stopped after step 100 of 800" in page.text
    assert "8 done, 1 failed, 1 unfinished" in page.text
    assert "flatter" not in page.text
    states = {run["encoding"]: (run["state"], run["compared"]) for run in data["runs"]}
    assert states["shaw"] == ("failed", False)
    assert states["t5"] == ("unfinished", False)
    assert states["alibi"] == ("done", True)
    assert set(data["encodings"]) == set(KNOWN)


def test_survivors_of_failed_runs_are_called_so(tmp_path: Path) -> None:
    add_known(tmp_path)
    add_run(tmp_path, "rotary", 2, (), end="failed", error="LabError: the loss became nan")
    page, _, _ = report(tmp_path)
    assert "1 of 3 runs of rotary failed; its numbers are those of the others" in page.text


@pytest.mark.parametrize("end", ["failed", "unfinished"])
def test_a_report_without_any_result_says_so(tmp_path: Path, end: str) -> None:
    add_run(tmp_path, "t5", 0, (), end=end, error="out of luck")
    page, _, data = report(tmp_path)
    assert "No run has finished yet" in page.text
    assert data["encodings"] == {}
    assert COMMAND in page.text


def test_a_report_without_any_run_says_so(tmp_path: Path) -> None:
    page, _, data = report(tmp_path)
    assert "No run has finished yet" in page.text
    assert data["runs"] == []


def test_numbers_that_are_not_finite_are_diverged_and_in_no_picture(tmp_path: Path) -> None:
    add_known(tmp_path)
    reason = "FloatingPointError: the loss is not a finite number"
    for seed in (0, 1):
        losses = (1.8, 2.0, None, None) if seed else (1.8, 2.0, 9.0, 9.0)
        add_run(tmp_path, "wild", seed, losses, reason=reason)
    page, html, data = report(tmp_path)
    assert data["encodings"]["wild"]["category"] == "diverged"
    assert data["encodings"]["wild"]["diverged"] == [1]
    assert data["encodings"]["wild"]["loss"]["targets"]["512"]["seeds"] == {"0": 9.0, "1": None}
    assert data["rankings"]["512"]["unranked"] == ["wild"]
    assert "wild diverged" in page.text
    assert "its loss is not a finite number in 1 of 2 runs" in page.text
    assert not re.search(r"\b(nan|inf|infinity)\b", html, re.IGNORECASE)


def test_a_missing_length_is_a_dash_with_its_reason(tmp_path: Path) -> None:
    add_known(tmp_path)
    for seed in (0, 1):
        add_run(tmp_path, "short", seed, (1.8, 2.0, 2.1, None), reason="ShapeError: <no row> 511")
    page, _, data = report(tmp_path)
    assert data["encodings"]["short"]["missing"] == {"512": "ShapeError: <no row> 511"}
    assert "\N{EN DASH} short at 512: ShapeError: <no row> 511" in page.text
    assert "short is not judged: no loss at 512" in page.text


def test_every_foreign_string_is_text(tmp_path: Path) -> None:
    add_known(tmp_path)
    for seed in (0, 1):
        add_run(tmp_path, HOSTILE, seed, (1.8, 2.0, None, 2.2), reason=HOSTILE)
    add_run(tmp_path, HOSTILE, 2, (), end="failed", error=HOSTILE)
    page, html, data = report(tmp_path)
    assert HOSTILE in data["encodings"]
    assert HOSTILE in page.text
    assert "<script" not in html
    assert page.tags["img"] == page.tags["script"] == 0
    assert page.tags["style"] == 1


def test_letters_that_no_document_can_hold_are_replaced(tmp_path: Path) -> None:
    for seed in (0, 1):
        add_run(tmp_path, "位置\x00\x1b[31m\ud800\u202e", seed, (1.8, 2.0, 2.1, 2.2))
    page, html, _ = report(tmp_path)
    assert "位置" in page.text
    assert not re.search("[\x00-\x08\x0b-\x1f\ud800-\udfff\u202e]", html)


def test_problems_of_results_files_show_without_this_machines_folders(tmp_path: Path) -> None:
    add_known(tmp_path)
    folder = add_run(tmp_path, "t5", 0, (1.8, 1.9, 2.0, 2.1))
    with (folder / RESULTS).open("ab") as file:
        file.write(b'{"kind": "lo')
    page, html, data = report(tmp_path)
    assert len(data["problems"]) == 1
    assert f"{folder.name}/{RESULTS}" in data["problems"][0]
    assert "results.corrupt.jsonl" in page.text
    assert str(tmp_path) not in html + json.dumps(data)


def test_runs_of_other_settings_are_counted_and_not_compared(tmp_path: Path) -> None:
    add_known(tmp_path)
    add_run(tmp_path, "alibi", 0, (9.0, 9.0, 9.0, 9.0), steps=100, started="2020-01-01")
    page, _, data = report(tmp_path)
    assert "1 run in this folder had other settings (steps)" in page.text
    assert data["encodings"]["alibi"]["loss"]["targets"]["64"]["seeds"] == {"0": 1.85, "1": 1.86}
    assert sum(run["compared"] for run in data["runs"]) == 8


def test_what_others_alone_have_set_is_named(tmp_path: Path) -> None:
    """A manifest leaves out what is as it always was."""
    add_known(tmp_path)
    add_run(tmp_path, "alibi", 0, (9.0,) * 4, changed={"precision": "bfloat16"}, started="2020")
    page, _, _ = report(tmp_path)
    assert "1 run in this folder had other settings (precision)" in page.text


def test_an_encoding_that_learned_no_position_is_called_so(tmp_path: Path) -> None:
    for seed in (0, 1):
        for name in ("none", "learned"):
            add_run(tmp_path, name, seed, tuple(2.3 + 0.01 * seed for _ in LENGTHS))
    page, _, data = report(tmp_path)
    assert data["encodings"]["learned"]["category"] == "holds"
    assert "learned is not measurably better than no position encoding" in page.text


def test_windows_that_disagree_are_named(tmp_path: Path) -> None:
    add_known(tmp_path)
    for folder in (tmp_path / "runs").glob("learned-*"):
        row = {"kind": "loss", "protocol": "windows", "length": 128, "loss": 2.0}
        append_row(folder / RESULTS, row)
        append_row(folder / RESULTS, {"kind": "done", "seconds": 1.0})
    page, _, data = report(tmp_path)
    assert data["encodings"]["learned"]["category"] == "breaks"
    assert data["encodings"]["learned"]["category_windows"] == "degrades"
    assert "Judged on whole windows instead of fixed targets, learned would degrade" in page.text


def test_the_json_keys_stay(known: Known) -> None:
    _, _, _, data = known
    assert set(data) == {
        "version", "command", "headline", "verdict", "protocol", "level", "thresholds", "noise",
        "setting", "train_length", "lengths", "encodings", "rankings", "against_none", "runs",
        "claims", "problems",
    }  # fmt: skip
    one = data["encodings"]["alibi"]
    assert set(one) == {
        "category", "category_windows", "reason", "seeds", "diverged", "change", "loss", "missing",
        "cost",
    }  # fmt: skip
    interval = one["loss"]["targets"]["64"]["interval"]
    assert interval["low"] < interval["mean"] < interval["high"]
    assert one["cost"]["0"]["run_seconds"] == 21.5
    assert data["thresholds"] == {"holds": 0.05, "breaks": 1.0, "near": 128}


@pytest.mark.parametrize("broken", ["replace", "fsync"])
def test_the_report_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    add_known(tmp_path)
    runs = runs_of(tmp_path)
    (tmp_path / "report.html").write_text("the old one")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, broken, full)
    with pytest.raises(OSError, match="No space left"):
        write_report(tmp_path, runs, COMMAND)
    assert (tmp_path / "report.html").read_text() == "the old one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "runs"]
