"""What is measured is kept and never measured again; Ctrl-C keeps what is done."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posenc.extend.cells import Cell
from posenc.extend.options import Options
from posenc.extend.run import CELLS, Outcome, extend
from posenc.extend.work import Work


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Counter[Cell]:
    """How often each cell is measured from here on."""
    counts: Counter[Cell] = Counter()
    measure = Work.measure

    def counted(work: Work, cell: Cell) -> dict[str, Any]:
        counts[cell] += 1
        return measure(work, cell)

    monkeypatch.setattr(Work, "measure", counted)
    return counts


def quietly(options: Options) -> Outcome:
    return extend(options, lambda line: None)


def numbers(data: dict[str, Any]) -> dict[str, Any]:
    """A report without what differs between two runs of the same: times, memory, folders."""
    kept = json.loads(json.dumps(data))
    for name in ("command", "machine"):
        kept.pop(name)
    for method in kept["methods"].values():
        method.pop("cost")
    return kept


def test_nothing_is_measured_twice_and_the_report_is_the_same(
    options: Options, measured: Counter[Cell]
) -> None:
    first = quietly(options)
    assert first.data["done"] == first.data["planned"] == len(measured) + len(shared(measured))
    assert "DynamicNTK(" in first.data["methods"]["dynamic"]["encoding"]
    written = (options.out / "report.json").read_bytes()
    page = (options.out / "report.html").read_bytes()
    before = measured.total()
    again = quietly(options)
    assert measured.total() == before
    assert again.data == first.data
    assert (options.out / "report.json").read_bytes() == written
    assert (options.out / "report.html").read_bytes() == page


def shared(measured: Counter[Cell]) -> list[Cell]:
    """Cells of dynamic within the trained length: the model as it is, measured already."""
    return [
        cell
        for cell in measured
        if cell.method == "none" and cell.length <= 300 and cell.measure != "sliding"
    ]


def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(
    options: Options, measured: Counter[Cell], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = quietly(replace(options, out=tmp_path / "whole"))
    everything, counted = measured.total(), Work.measure
    measured.clear()

    def interrupted(work: Work, cell: Cell) -> dict[str, Any]:
        if measured.total() == 7:
            raise KeyboardInterrupt
        return counted(work, cell)

    monkeypatch.setattr(Work, "measure", interrupted)
    stopped = quietly(options)
    assert stopped.interrupted
    assert 7 <= stopped.data["done"] < stopped.data["planned"]
    assert "cells are finished" in (options.out / "report.html").read_text()
    monkeypatch.setattr(Work, "measure", counted)
    done = quietly(options)
    assert not done.interrupted
    assert measured.total() == everything
    assert max(measured.values()) == 1
    assert numbers(done.data) == numbers(whole.data)


def test_a_torn_line_is_kept_aside_and_its_cell_measured_again(
    options: Options, measured: Counter[Cell]
) -> None:
    first = quietly(options)
    file = options.out / CELLS
    file.write_bytes(file.read_bytes()[:-20])
    measured.clear()
    again = quietly(options)
    assert measured.total() == 1
    assert numbers(again.data) == numbers(first.data)


def test_only_what_an_option_changes_is_measured_anew(
    options: Options, measured: Counter[Cell]
) -> None:
    quietly(options)
    measured.clear()
    quietly(replace(options, seed=1))
    assert {cell.measure for cell in measured} == {"passkey", "control"}
    measured.clear()
    quietly(replace(options, methods=(*options.methods, "linear"), needles=2))
    assert {cell.method for cell in measured if cell.index == 0} == {"linear"}
    measured.clear()
    quietly(replace(options, spans=3))
    assert {cell.measure for cell in measured} == {"windows", "targets", "short", "sliding"}


def test_another_model_is_another_measurement(
    options: Options, measured: Counter[Cell], tmp_path: Path
) -> None:
    from extend_models import save_tiny

    few = replace(options, methods=("none",), measures=("short",), spans=1)
    quietly(few)
    other = save_tiny(tmp_path / "other", max_position_embeddings=300, intermediate_size=40)
    quietly(replace(few, model=other))
    assert measured.total() == 2


def test_a_cell_that_fails_is_told_and_tried_again(
    options: Options, measured: Counter[Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Work.measure

    def failing(work: Work, cell: Cell) -> dict[str, Any]:
        if cell.measure == "windows":
            raise MemoryError("out of memory")
        return counted(work, cell)

    monkeypatch.setattr(Work, "measure", failing)
    outcome = quietly(options)
    assert set(outcome.data["failed"].values()) == {"out of memory"}
    assert "out of memory" in (options.out / "report.html").read_text()
    monkeypatch.setattr(Work, "measure", counted)
    assert not quietly(options).failed


def test_the_model_is_given_its_own_positions_back(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []
    measure = Work.measure

    def keeping(work: Work, cell: Cell) -> dict[str, Any]:
        kept.append(work.subject.model)
        return measure(work, cell)

    monkeypatch.setattr(Work, "measure", keeping)
    quietly(replace(options, measures=("short",)))
    assert "_posenc" not in kept[0].__dict__
