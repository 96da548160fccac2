"""Measure what is not measured yet in the output folder, then write the report there."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posenc.errors import LabError, PosencError, SettingError
from posenc.extend.cells import Cell, Lengths, plan, row_name
from posenc.extend.material import Material
from posenc.extend.measuring import Measuring, here
from posenc.extend.methods import Reach
from posenc.extend.options import Options
from posenc.extend.search.run import search_factors
from posenc.extend.subject import Subject, check_rotary, load_subject
from posenc.extend.tune.lora import load_peft, projections
from posenc.extend.tune.settings import UNTUNABLE, Tuning
from posenc.extend.tune.text import training_windows
from posenc.extend.tune.tuner import Tuner
from posenc.extend.work import Work
from posenc.extend.write import write_config
from posenc.lab.folder import append_row, locked, make_folder, read_rows
from posenc.lab.text import read_text, standard_library
from posenc.models.attach import detach
from posenc.words import Saying

CELLS = "cells.jsonl"
QUIET_SECONDS = 2.0
Tell = Callable[[Saying], None]


@dataclass
class Outcome:
    """What a run left behind: the page, what report.json holds, and what is missing and why.

    written says where a method's config.json is, or why there is none.
    """

    report: Path
    data: dict[str, Any]
    interrupted: bool
    failed: dict[str, str]
    written: Saying | None


def extend(options: Options, tell: Tell, measuring: Measuring = here) -> Outcome:
    """Measure each method on the model of the options, and write report.html and report.json.

    `tell` hears a line now and then, as `posenc.extend.words` has it; `measuring` is who measures
    what is not done yet. Raises PosencError before any
    work where the model, the text or an option cannot be used. After Ctrl-C the report holds what
    is finished, and the same command goes on from there.
    """
    from posenc.extend.record import record
    from posenc.extend.report import write_report

    trained = check_rotary(options.model)
    lengths = Lengths(trained, tuple(sorted({*options.to})) or (2 * trained,))
    if min(lengths.to) <= trained:
        raise SettingError(
            f"extend --to {min(lengths.to)}: the model was trained on {trained} tokens and reads "
            "as many by itself; give more"
        )
    tuning = options.tuning and options.tuning.settled(trained, max(lengths.to))
    if tuning is not None and tuning.rank is not None:
        # Refused before any work, where it is missing.
        load_peft()
    corpus = read_text(options.text) if options.text else standard_library()
    make_folder(options.out)
    with locked(options.out, wait=False):
        subject = load_subject(options.model)
        text = (corpus.train + corpus.test).decode("utf-8", "replace")
        beyond = tuning.tokens(options.spans + 1) if tuning else 0
        material = Material.of(subject.tokenizer, text, options.spans, max(lengths.to), beyond)
        if "passkey" in options.measures:
            # Refused before the hours that losses take.
            material.passkey(min(lengths.passkeys), 0.0, "")
        found = None
        if options.search is not None:
            search = options.search
            asked = subject, material, search, max(lengths.to), options.seed, options.out, tell
            found = search_factors(*asked)
            subject = replace(subject, found=found.scaling)
        tuner = _tuner(subject, material, tuning, lengths, options) if tuning else None
        cells_file = options.out / CELLS
        work = Work(subject, material, lengths, options.seed, cells_file, tuner, options.model)
        written = None
        if options.write is not None:
            reach = Reach(trained, work.target, subject.found)
            written = write_config(options.out, subject.values, options.write, reach)
        unavailable = _unavailable(work, options.methods)
        methods = tuple(name for name in options.methods if name not in unavailable)
        tuned = {}
        if tuning is not None:
            tuned = {name: tuning.steps for name in methods if name not in UNTUNABLE}
            unavailable |= {
                row_name(name, tuning.steps): UNTUNABLE[name]
                for name in methods
                if name in UNTUNABLE
            }
        cells = plan(methods, options.measures, lengths, options.spans, options.needles, tuned)
        rows, failed, interrupted = _carry_out(work, cells, tell, measuring)
        data = record(options, work, corpus.summary, cells, rows)
        data |= {"unavailable": unavailable, "failed": failed}
        data |= {"search": found.record} if found is not None else {}
        report = write_report(options.out, data, options.language)
    return Outcome(report, data, interrupted, failed, written)


def _tuner(
    subject: Subject, material: Material, tuning: Tuning, lengths: Lengths, options: Options
) -> Tuner:
    """Raises PosencError where the text is too short, or LoRA has no place in the model."""
    assert tuning.length is not None
    windows = training_windows(material, tuning.length)
    beside = () if tuning.rank is None else projections(subject.model)
    return Tuner(subject, windows, tuning, max(lengths.to), options.seed, options.out, beside)


def _unavailable(work: Work, methods: tuple[str, ...]) -> dict[str, str]:
    """Methods that have no meaning for this model, each with the reason."""
    reasons = {}
    for name in methods:
        try:
            work.subject.attach(name, work.target, work.target)
        except PosencError as error:
            reasons[name] = str(error)
    if len(reasons) == len(methods):
        raise next(iter(map(LabError, reasons.values())))
    return reasons


def _carry_out(
    work: Work, cells: list[Cell], tell: Tell, measuring: Measuring
) -> tuple[dict[Cell, dict[str, Any]], dict[str, str], bool]:
    """Rows of all finished cells, reasons of those that failed, and whether Ctrl-C ended it."""
    held, problems = read_rows(work.file)
    for problem in problems:
        tell(Saying("as_it_is", {"text": problem}))
    by_key = {row["key"]: row for row in held if row["kind"] == "cell" and "result" in row}
    keys = {cell: work.key(cell) for cell in cells}
    left = sum(cell.length for cell in cells if keys[cell] not in by_key)
    done = sum(x in by_key for x in keys.values())
    tell(Saying("cells", {"cells": len(cells), "done": done}))
    failed: dict[str, str] = {}
    trained_on = {cell.row: cell.method for cell in cells if cell.steps}
    tokens, told = 0, time.perf_counter()
    try:
        failed |= _train(work, trained_on, tell)
        began = time.perf_counter()
        # Methods that build the same for a length share their cells.
        todo: dict[str, Cell] = {}
        for cell in cells:
            if keys[cell] not in by_key and cell.row not in failed:
                todo.setdefault(keys[cell], cell)
        for cell, row in measuring(work, [*todo.values()]):
            done += 1
            if isinstance(row, str):
                failed[str(cell)] = row
                continue
            append_row(work.file, row)
            by_key[keys[cell]] = row
            tokens += cell.length
            seconds = (time.perf_counter() - began) * (left - tokens) / tokens
            now = time.perf_counter()
            # Tiny models measure hundreds of cells a second.
            if now - told >= QUIET_SECONDS:
                told = now
                said = {"number": done, "cells": len(cells), "cell": cell.said}
                said |= {"seconds": row["seconds"], "left": _clock(seconds)}
                tell(Saying("cell", said))
    except KeyboardInterrupt:
        tell(Saying("stopped_early"))
        return _found(by_key, keys), failed, True
    finally:
        detach(work.subject.model)
    return _found(by_key, keys), failed, False


def _train(work: Work, rows: dict[str, str], tell: Tell) -> dict[str, str]:
    """Train the method of each of these rows; returns the reasons of those that broke down."""
    failed = {}
    for row, method in rows.items():
        assert work.tuner is not None
        try:
            work.tuner.train(method, tell)
        except (PosencError, OSError, RuntimeError, MemoryError) as error:
            failed[row] = str(error).partition("\n")[0]
    return failed


def _found(by_key: dict[str, Any], keys: dict[Cell, str]) -> dict[Cell, dict[str, Any]]:
    return {cell: by_key[name] for cell, name in keys.items() if name in by_key}


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
