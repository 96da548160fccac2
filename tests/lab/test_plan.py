"""The runs of a comparison, planned or refused before any work."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab_runs import Silent

import posenc as pe
from posenc.errors import LabError, PosencError, SettingError, UnknownNameError
from posenc.lab.compare import Comparison, compare, plan
from posenc.lab.text import Corpus, read_text


class TestPlan:
    def test_goes_seed_by_seed(self, small: Comparison) -> None:
        configs = plan(replace(small, seeds=3), read_text(small.text))
        found = [(config.seed, config.encoding) for config in configs]
        assert found == [(s, name) for s in range(3) for name in ("none", "alibi")]
        assert len({config.run_id for config in configs}) == 6

    def test_everything_but_encoding_and_seed_is_shared(self, small: Comparison) -> None:
        configs = plan(replace(small, seeds=2), read_text(small.text))
        shared = {replace(config, encoding="", settings="", seed=0) for config in configs}
        assert len(shared) == 1
        assert {config.settings for config in configs} == {
            "NoPE()",
            repr(pe.ALiBi(2)),
        }

    def test_adds_the_train_length_to_the_tested_ones(self, small: Comparison) -> None:
        (config, _) = plan(small, read_text(small.text))
        assert config.test_lengths == (8, 16, 32)

    def test_an_encoding_named_twice_runs_once(self, small: Comparison) -> None:
        configs = plan(replace(small, encodings=("none", "NoPE", "none")), read_text(small.text))
        assert [config.encoding for config in configs] == ["none"]

    @pytest.mark.parametrize(("jobs", "share"), [(1, 0.25), (2, 0.5), (4, 1.0), (9, 1.0)])
    def test_minutes_are_split_evenly(self, small: Comparison, jobs: int, share: float) -> None:
        timed = replace(small, steps=None, minutes=10.0, seeds=2, jobs=jobs)
        configs = plan(timed, read_text(small.text))
        assert {config.steps for config in configs} == {None}
        assert [config.minutes for config in configs] == pytest.approx([8.5 * share] * 4)

    def test_the_command_has_every_digit_of_the_minutes(self, small: Comparison) -> None:
        timed = replace(small, steps=None, minutes=12.3456789)
        words = timed.command().split()
        assert float(words[words.index("--minutes") + 1]) == timed.minutes

    def test_the_default_has_the_encodings_of_the_report(self, text: Path) -> None:
        names = [
            config.encoding
            for config in plan(Comparison(), Corpus(b"a" * 9**6, b"a" * 9**6, {"sha256": ""}))
        ]
        assert names == list(Comparison.encodings) * 2

    @pytest.mark.parametrize(
        ("changes", "error", "message"),
        [
            ({"encodings": ("none", "rotery")}, UnknownNameError, "did you mean 'rotary'"),
            ({"encodings": ("no.such:Thing",)}, SettingError, "no.such:Thing"),
            ({"encodings": ("sinks",)}, SettingError, "sinks cannot be compared"),
            ({"encodings": ()}, SettingError, "at least one"),
            ({"train_length": 7}, SettingError, "at least 8"),
            ({"test_lengths": (1,)}, SettingError, "at least 2"),
            ({"dim": 9}, SettingError, "dim=9 is not divisible by heads=2"),
            ({"dim": 0}, SettingError, "dim is 0"),
            ({"dim": 6, "encodings": ("rotary",)}, PosencError, "even"),
            ({"minutes": -1.0, "steps": None}, SettingError, r"minutes is -1\.0: .*above 0"),
            ({"minutes": 1.0}, SettingError, "one budget, not two"),
            ({"seeds": 0}, SettingError, "seeds is 0"),
            ({"seeds": 1001}, SettingError, "seeds is 1001: .* at most 1000"),
            ({"jobs": 0}, SettingError, "jobs is 0"),
            ({"steps": 0}, SettingError, "steps is 0"),
            ({"test_lengths": (4096,)}, LabError, "too short"),
            ({"text": (Path("no/such/file"),)}, LabError, "no/such/file"),
        ],
    )
    def test_what_cannot_work_is_refused_before_any_work(
        self, small: Comparison, changes: dict[str, Any], error: type[Exception], message: str
    ) -> None:
        with pytest.raises(error, match=message):
            compare(replace(small, **changes), Silent())
        assert not small.out.exists()

    def test_a_class_that_is_not_for_comparing_is_refused(
        self, small: Comparison, broken: str
    ) -> None:
        with pytest.raises(SettingError, match="it is a test"):
            compare(replace(small, encodings=(f"{broken}:Apart",)), Silent())

    def test_a_folder_that_cannot_be_written_is_refused(self, small: Comparison) -> None:
        small.out.write_text("a file")
        for out in (small.out, small.out / "inside"):
            with pytest.raises(LabError, match="choose another folder with --out"):
                compare(replace(small, out=out), Silent())
