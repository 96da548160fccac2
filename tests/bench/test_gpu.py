"""`make gpu` where there is no GPU: rehearsed whole, and what its processes and its record do."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from posenc.bench.gpu import training
from posenc.bench.gpu.cases import cases
from posenc.bench.gpu.record import Record
from posenc.bench.gpu.report import line, result
from posenc.bench.gpu.row import Found, Place, Row, Step
from posenc.bench.gpu.run import run
from posenc.bench.gpu.training import ENCODINGS
from posenc.bench.gpu.workers import Workers
from posenc.errors import SettingError, UnknownNameError
from posenc.lab.encodings import made
from tests.support.rows import die, fail, give, hang, lack, refuse

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import gpu as page

CPU = Place("cpu", tiny=True)
MACHINE = {"gpu": "a card", "torch": "2"}


@pytest.mark.long
def test_a_rehearsal_goes_through_every_step_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    command = [sys.executable, "-m", "posenc.bench.gpu", "--rehearse", "--minutes", "60"]
    whole = subprocess.run(
        [*command, "--out", str(out)], capture_output=True, text=True, check=False
    )
    assert whole.returncode == 0, whole.stdout + whole.stderr
    steps = json.loads(out.read_text())["steps"]
    assert list(steps) == ["right", "ceilings", "kernels", "peers", "lab"]
    found = {name: row for rows in steps.values() for name, row in rows.items()}
    assert all("failed" not in row for row in found.values()), found
    checked = [row["right"] for row in steps["right"].values() if "missing" not in row]
    assert len(checked) == 3
    assert all(checked)
    for case in cases():
        row = found.get(case.name)
        if row is not None:
            assert len(row["values"][case.floor]) >= 2
            assert set(row["values"]) | set(row["missing"]) == set(case.contestants)
            # Not every kernel of SDPA is for CPUs.
            failed = {k for k, why in row["missing"].items() if why.startswith("failed")}
            assert all(name.startswith("SDPA ") for name in failed), row["missing"]
            assert all(apart < 0.02 for apart in row["apart"].values()), row["apart"]
    # Nothing is made again.
    before = out.read_text()
    assert run(out, CPU, (), 60.0, told)[1] == 0
    assert out.read_text() == before


def told(*found: object) -> None:
    raise AssertionError(f"made once more: {found}")


def test_without_time_every_row_is_left(tmp_path: Path) -> None:
    record, left = run(tmp_path / "gpu.json", CPU, (), 0.0, told)
    assert left > 12
    assert list(record.rows()) == []


def test_a_step_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="'speed'"):
        run(tmp_path / "gpu.json", CPU, ("speed",), 1.0, told)


def test_words_choose_rows(tmp_path: Path) -> None:
    _, left = run(tmp_path / "gpu.json", CPU, ("copy of 1 MB", "none"), 0.0, told)
    assert left == 2


def carried(rows: list[Row], **how: Any) -> dict[str, Found]:
    options: dict[str, Any] = {"seconds": 30.0, "until": float("inf")} | how
    with Workers(CPU) as workers:
        return {row.name: found for row, found in workers.made(rows, **options)}


@pytest.mark.long
def test_a_row_that_dies_hangs_or_raises_takes_no_other_with_it() -> None:
    rows = [
        Row("one", give, (1.0,)),
        Row("refused", refuse),
        Row("none", lack),
        Row("wrong", fail),
        Row("dead", die),
        Row("two", give, (2.0,)),
    ]
    found = carried(rows)
    assert [found[name].get("value") for name in ("one", "two")] == [1.0, 2.0]
    assert found["refused"] == found["none"] == {"missing": "so"}
    assert found["wrong"]["failed"].startswith("ValueError: so (support/rows.py:")
    assert found["dead"] == {"failed": "the process ended with exit code 9"}
    assert found["one"]["process"] != found["two"]["process"]
    slow = carried([Row("slow", hang), Row("after", give, (3.0,))], seconds=2.0)
    assert slow["slow"] == {"failed": "it took longer than 2 s"}
    assert slow["after"]["value"] == 3.0


def test_no_row_begins_when_time_is_up() -> None:
    assert carried([Row("one", give, (1.0,))], until=0.0) == {}


def test_a_record_knows_source_and_card_and_asks_again_for_what_failed(tmp_path: Path) -> None:
    step, rows = Step("right", "", lambda _: iter(())), [Row("a", give), Row("b", give)]
    path = tmp_path / "a" / "new folder" / "gpu.json"
    record = Record(path, MACHINE)
    record.add(step, rows[0], {"right": True})
    record.add(step, rows[1], {"failed": "ValueError"})
    again = Record(path, MACHINE)
    assert again.left(step, rows) == rows[1:]
    assert [name for _, name, _ in again.rows()] == ["a", "b"]
    other = Record(path, MACHINE | {"gpu": "another"})
    assert other.left(step, rows) == rows
    again.source = "changed"
    assert again.left(step, rows) == rows


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 7, "steps": {}}', '{"version": 1}'])
def test_a_file_that_is_no_record_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "gpu.json"
    path.write_text(text)
    with pytest.raises(SettingError, match="no record"):
        Record(path, MACHINE)
    assert path.read_text() == text


def test_cases_have_names_of_their_own_and_goals_name_contestants() -> None:
    every = cases()
    assert len({case.name for case in every}) == len(every)
    for case in every:
        assert case.floor in case.contestants
        for goal in case.goals:
            assert {goal.who, goal.base, *(goal.peers or ())} <= set(case.contestants)
    # A line of the page's table stands for one figure alone.
    lines = [(goal.row, goal.line) for case in every for goal in case.goals]
    assert len(set(lines)) == len(lines)


def test_a_row_says_what_it_found_in_a_line() -> None:
    wrong = {"right": False, "error": None, "of": "output", "bound": 1e-4, "same_bits": True}
    assert line(wrong) == "WRONG, off by infinite in output, at most 1e-04"
    assert line({"failed": "ValueError: so"}) == "failed: ValueError: so"
    times = {"values": {"clone": [1.0, 1.0], "posenc": [1.1, 1.3]}, "missing": {"Liger": "no"}}
    assert line(times) == "clone 1.00, posenc 1.20, Liger missing"


def test_a_row_that_failed_meets_no_goal() -> None:
    case = next(case for case in cases() if case.goals)
    known = result(case, {"failed": "ValueError"})
    assert known.against("posenc", case.floor) is None
    assert known.missing["posenc"] == "ValueError"


@pytest.mark.parametrize("spelled", ENCODINGS)
def test_the_lab_knows_the_encodings_of_its_step(spelled: str) -> None:
    assert made(spelled, model_dim=32, heads=2, head_dim=16, train_length=512)


def test_runs_that_tell_no_losses_agree_in_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_run", lambda config, device: (0.0, []))
    assert training.agreement(CPU, "copy(letters=4)", "float32")["right"] is False


def test_the_page_tells_wrong_numbers_from_rows_without_any() -> None:
    rows = {
        "one": {"right": True},
        "two": {"right": False},
        "three": {"failed": "CompilationError: at 56:4: ..."},
        "four": {"right": True, "gaps": []},
        "five": {"missing": "FlexAttention"},
    }
    assert page.correct(rows, "en") == (
        "**Of 4 rows of correctness 1 are right, 1 wrong**; 1 gave wrong numbers: two; "
        "1 failed before there was a number: three (CompilationError); 1 compared nothing: four."
    )
