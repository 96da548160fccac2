"""Results that somebody changed: what is wrong is named, the report is written, nothing is lost."""

import copy
import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lab_runs import COMMAND, add_run, runs_of

from posenc.lab import figures
from posenc.lab.config import RunConfig
from posenc.lab.folder import CORRUPT, MANIFEST, RESULTS, read_rows
from posenc.lab.report import write_report
from posenc.report.markup import Markup

HUGE = 10**400
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([HUGE, -HUGE, 2**62, 1e308, -1e308, 1e-320])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, int, list[Any]]:
    """Which file, which of its rows, and up to three (key, value) to put there; None removes."""
    file = draw(st.sampled_from([MANIFEST, RESULTS]))
    known = ["config", "started", "encoding", "hardware", "versions"]
    keys = ["kind", "step", "loss", "length", "protocol", "seconds", "edges", "spans", "reason"]
    fields = [*RunConfig.__dataclass_fields__]
    key = st.sampled_from([*known, *fields] if file == MANIFEST else keys)
    puts = st.lists(st.tuples(key, st.none() | st.tuples(VALUES)), min_size=1, max_size=3)
    # The last of the training rows, and all after them.
    return file, draw(st.integers(-14, -1)), draw(puts)


def change(value: dict[str, Any], puts: list[Any]) -> dict[str, Any]:
    changed = copy.deepcopy(value)
    for key, put in puts:
        inside = changed.get("config")
        target = inside if isinstance(inside, dict) and key in inside else changed
        if put is None:
            target.pop(key, None)
        else:
            target[key] = put[0]
    return changed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two encodings with two seeds; the first run of the first one is tampered with."""
    out = tmp_path_factory.mktemp("tampered")
    for seed in (1, 0):
        for encoding in ("rotary", "alibi"):
            add_run(out, encoding, seed, (1.9 + 0.01 * seed, 1.9, 2.0, 2.1))
    return out


def write_without_drawing(out: Path) -> dict[str, Any]:
    """The report; what is drawn gets its curves, and only matplotlib is spared."""

    def drawn(draw: Any, alt: str | None) -> Markup:
        return Markup("<svg></svg>")

    with mock.patch.object(figures, "inline", drawn):
        write_report(out, runs_of(out), COMMAND)
    return json.loads((out / "report.json").read_text("utf-8"))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(change_=changes())
def test_any_change_is_told_or_harmless(folder: Path, change_: tuple[str, int, list[Any]]) -> None:
    file, index, puts = change_
    path = folder / "runs" / RunConfig("alibi", settings="alibi()", steps=800).name / file
    before = path.read_bytes()
    aside = path.with_name(CORRUPT)
    lines = before.decode().splitlines()
    try:
        if file == MANIFEST:
            path.write_text(json.dumps(change(json.loads(before), puts)))
        else:
            index += len(lines)
            lines[index] = json.dumps(change(json.loads(lines[index]), puts))
            path.write_text("\n".join(lines) + "\n")
        data = write_without_drawing(folder)
        if file == RESULTS:
            kept = path.read_text().splitlines()
            moved = aside.read_text().splitlines() if aside.exists() else []
            assert sorted(kept + moved) == sorted(lines)
            assert len(data["problems"]) == len(moved)
            assert all(f"line {index + 1} of" in problem for problem in data["problems"])
    finally:
        path.write_bytes(before)
        aside.unlink(missing_ok=True)


SHARES = {"kind": "accuracy", "length": 4, "exact": 3, "examples": 4, "token": 0.9, "loss": 1}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"kind": "train", "step": "20"}, "step is '20', and a whole number is needed"),
        ({"kind": "train"}, "a row of kind 'train' needs 'step'"),
        (
            {"kind": "loss", "protocol": ["targets"], "length": 64, "loss": 1},
            "protocol is ['targets']",
        ),
        ({"kind": "loss", "protocol": "targets", "length": 0, "loss": 1}, "a whole number above 0"),
        ({"kind": "loss", "protocol": "targets", "length": 64}, "needs 'loss'"),
        ({"kind": "loss", "protocol": "targets", "length": HUGE}, "a very large number"),
        ({"kind": "by_position", "edges": [0, 1], "loss": []}, "0 losses lie between 2 edges"),
        ({"kind": "by_position", "edges": ["a"], "loss": [1.0]}, "edges is ['a']"),
        ({"kind": "by_position", "edges": [0, 1], "loss": 1.0}, "loss is 1.0"),
        ({"kind": "done", "seconds": [1]}, "seconds is [1]"),
        ({"kind": "cost", "parameters": 4}, "a row of kind 'cost' needs 'seconds'"),
        ({"kind": "cost", "seconds": 1, "parameters": HUGE}, "a very large number"),
        (
            {"kind": "cost", "seconds": 1, "steps": "many"},
            "steps is 'many', and a whole number is needed",
        ),
        (
            {"kind": "cost", "seconds": 1, "ms_per_step": None},
            "ms_per_step is None, and a number is needed",
        ),
        (SHARES | {"exact": 9}, "there are 4 examples"),
        (SHARES | {"token": 1.5}, "token is 1.5, and a share from 0 to 1 is needed"),
        (SHARES | {"chance": -1}, "chance is -1, and a share from 0 to 1 is needed"),
        ({k: v for k, v in SHARES.items() if k != "token"}, "needs 'token'"),
        ({"kind": "new", "deep": [[[[[[[[[1]]]]]]]]]}, "nested too deep"),
        (
            {"kind": "loss", "protocol": "targets", "length": 64, "loss": 1e300},
            "1e+300 is no number that a run can have written",
        ),
    ],
)
def test_a_bad_row_is_named_with_its_line_and_what_is_wrong(
    tmp_path: Path, row: dict[str, Any], reason: str
) -> None:
    path = tmp_path / RESULTS
    good = [{"kind": "train", "step": 1, "loss": 2.0}, {"kind": "done", "seconds": 1}]
    path.write_text("\n".join(json.dumps(one) for one in (good[0], row, good[1])) + "\n")
    rows, (problem,) = read_rows(path)
    assert rows == good
    assert f"line 2 of {path}" in problem
    assert reason in problem
    assert json.loads((tmp_path / CORRUPT).read_text()) == row


def test_losses_as_large_as_models_compute_in_are_reported(tmp_path: Path) -> None:
    for seed in (0, 1):
        add_run(tmp_path, "alibi", seed, (1.9, 3.4e38, 2.0, 2.1))
    write_without_drawing(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("encoding", ["alibi"]),
        ("seed", "0"),
        ("seed", HUGE),
        ("train_length", 64.5),
        ("test_lengths", [64, "128"]),
        ("minutes", {}),
        ("learning_rate", None),
    ],
)
def test_a_configuration_of_other_types_leaves_its_run_out(
    tmp_path: Path, key: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    folder = add_run(tmp_path, "alibi", 0, (1.9, 1.9, 2.0, 2.1))
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["config"][key] = value
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert runs_of(tmp_path) == []
    assert str(folder) in caplog.text
