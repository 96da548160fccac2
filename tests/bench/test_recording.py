"""Recordings of a benchmark that are kept, and a later run of some cases that joins one."""

import json
import sys
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from bench_cases import about

from posenc.bench.case import Case
from posenc.bench.cases import all_cases
from posenc.bench.result import Result
from posenc.bench.run import report

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import benchmark
from benchmark_recording import merged
from benchmark_texts import WORDS

# Rotating forward and backward, whose goal names what cannot be left out, and another.
NAMED = {case.name: case for case in all_cases()}
FIRST, SECOND = (
    NAMED[f"rotate forward and backward, (1, 32, 2048, 128), {layout}, float32"]
    for layout in ("half", "interleaved")
)


def recorded(found: dict[str, float], cases: tuple[Case, ...], **changes: Any) -> dict[str, Any]:
    """A report in which every contestant takes a second but those of `found`."""
    results = [
        Result(case, {name: [found.get(name, 1.0)] * 7 for name in case.contestants})
        for case in cases
    ]
    return json.loads(json.dumps(report({**about(), "quick": False, **changes}, results)))


WHOLE = recorded({"posenc in place": 1.5, "transformers": 5.0}, (FIRST, SECOND))
LATER = {"command": "posenc bench --only half", "started": "2026-02-02T00:00:00Z"}
PART = recorded({"posenc in place": 1.0, "transformers": 5.0}, (FIRST,), **LATER)


class TestRecording:
    def test_a_later_run_takes_the_place_of_its_cases_alone(self) -> None:
        joined = merged(WHOLE, PART)
        first, second = joined["cases"]
        assert first["values"] == PART["cases"][0]["values"]
        assert first["recorded"] == {**LATER, "machine": PART["machine"]}
        assert second == WHOLE["cases"][1]
        row = FIRST.goals[0].row
        verdicts = {x["line"]: x["verdict"] for x in joined["figures"] if x["row"] == row}
        assert verdicts["half, float32"] == "met"
        assert verdicts["interleaved, float32"].startswith("missed")
        assert (joined["command"], joined["started"]) == (WHOLE["command"], WHOLE["started"])
        # Merged again, a case tells its latest run.
        third = merged(joined, PART | {"started": "2026-03-03T00:00:00Z"})
        assert [case.get("recorded", {}).get("started") for case in third["cases"]] == [
            "2026-03-03T00:00:00Z", None,
        ]  # fmt: skip

    @pytest.mark.parametrize("changes", [{"quick": True}, {"version": 0}])
    def test_what_measures_otherwise_does_not_join(self, changes: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="cannot join a recording of version 1"):
            merged(WHOLE, PART | changes)

    def test_the_page_tells_of_it(self) -> None:
        assert benchmark.measured_again(WHOLE, "en") == ""
        told = benchmark.measured_again(merged(WHOLE, PART), "en")
        assert told == (
            " Measured again on 2026-02-02, by `posenc bench --only half`: 1 of the cases."
        )
        other = PART | {"machine": {**PART["machine"], "cpu": "another CPU"}}
        told = benchmark.measured_again(merged(WHOLE, other), "en")
        assert told.endswith(", another CPU, 2 cores, torch 2.13.")

    def test_what_cannot_be_left_out_stands_beside_what_is_missed(self) -> None:
        found = [Result.from_json(FIRST, WHOLE["cases"][0])]
        for language, told in (
            ("en", "1.50 **missed**, multiply in place, four tensors: 1.00"),
            ("zh", "1.50 **未达到**，原地相乘，四个张量：1.00"),
        ):
            assert told in benchmark.page(WHOLE, found, language)
        met = [Result.from_json(FIRST, PART["cases"][0])]
        assert "four tensors: " not in benchmark.page(PART, met, "en")

    def test_a_recording_of_other_kernels_shows_each_kind_of_figure_once(self) -> None:
        told = benchmark.elsewhere(WHOLE, "en")
        title, _, said, _, *rows = told.splitlines()
        assert title == f"### With kernels for {WHOLE['machine']['native']}"
        named = WHOLE | {"kernels": "AVX2"}
        assert benchmark.elsewhere(named, "zh").startswith("### 用 AVX2 内核\n")
        assert said.startswith("`posenc bench")
        cells = {row.split(" | ")[0].removeprefix("| "): row.split(" | ")[1:] for row in rows[2:]}
        # What it did not measure has no row.
        assert list(cells) == list(dict.fromkeys(goal.row for goal in FIRST.goals))
        assert len(rows) == 2 + len(cells)
        of, worst, most, _ = cells[FIRST.goals[0].row]
        assert of.startswith("0 of ")
        assert worst == "**1.50**, multiply in place, four tensors: 1.00"
        assert most == "1.3 times multiply in place, twice"

    def test_a_recording_is_kept_by_its_name_for_the_kernels_that_it_is_of(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(benchmark, "DATA", tmp_path)
        monkeypatch.setattr(benchmark, "ROOT", tmp_path)
        run = {"command": "posenc bench --out /home/me/x"}
        assert benchmark.keep(WHOLE | run, "zen5") == f"zen5.json: {WHOLE['headline']}"
        written = json.loads((tmp_path / "zen5.json").read_text())
        assert written["command"] == "posenc bench"
        assert written["cases"] == WHOLE["cases"]
        benchmark.keep(PART, "zen5")
        joined = json.loads((tmp_path / "zen5.json").read_text())
        assert [case.get("recorded") is None for case in joined["cases"]] == [False, True]
        with pytest.raises(ValueError, match="'zen 5': give one of zen5, "):
            benchmark.keep(WHOLE, "zen 5")
        other = WHOLE | {"machine": WHOLE["machine"] | {"native": "sse2"}}
        with pytest.raises(ValueError, match=r"zen5\.json is of kernels for \w+, and .* by sse2"):
            benchmark.keep(other, "zen5")
        assert json.loads((tmp_path / "zen5.json").read_text()) == joined


def test_both_languages_say_as_much_of_a_recording() -> None:
    def told(language: str) -> dict[str, set[str | None]]:
        return {
            key: {name for _, name, _, _ in Formatter().parse(text)} - {None}
            for key, text in WORDS[language].items()
            # In English the headline is a sentence; in Chinese it is made of the numbers in it.
            if isinstance(text, str) and key != "counts"
        }

    assert told("zh") == told("en")
