"""Training: the same text and weights for every encoding, and exact after an interruption."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

import posenc as pe
from posenc.errors import LabError
from posenc.lab import model as building
from posenc.lab.checkpoint import Clock, save_tensors
from posenc.lab.config import RunConfig
from posenc.lab.folder import CHECKPOINT, RESULTS, WEIGHTS, append_row, read_rows
from posenc.lab.model import build, encoding_parameters
from posenc.lab.step import batch_at
from posenc.lab.tasks import find
from posenc.lab.tasks.text import Text
from posenc.lab.train import (
    Progress,
    Stop,
    learning_rate,
    make_optimizer,
    train,
)
from posenc.lab.train import record as module

SMALL = RunConfig(
    "rotary",
    train_length=8,
    test_lengths=(8, 16),
    dim=8,
    depth=1,
    heads=2,
    batch=4,
    steps=30,
    spans=8,
)
COMPARED = ("none", "learned", "sinusoidal", "rotary", "alibi", "t5", "shaw")
TEXT = torch.randint(
    97, 123, (4000,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)

TASK = Text(train=TEXT, test=TEXT)


def stopping_after(steps: int) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        if progress.step >= steps:
            raise Stop

    return tell


def results(folder: Path) -> tuple[bytes, list[tuple[int, float]], list[str]]:
    rows, _ = read_rows(folder / RESULTS)
    losses = [(row["step"], row["loss"]) for row in rows if row["kind"] == "train"]
    return (folder / WEIGHTS).read_bytes(), losses, [row["kind"] for row in rows]


class TestSameForEveryEncoding:
    def test_batches_depend_on_seed_and_step_alone(self) -> None:
        first = batch_at(TASK, SMALL, 7)
        for name in COMPARED:
            torch.manual_seed(hash(name) % 1000)
            x, y, *_ = batch_at(TASK, replace(SMALL, encoding=name), 7)
            assert torch.equal(x, first[0])
            assert torch.equal(y, first[1])
        assert not torch.equal(batch_at(TASK, SMALL, 8)[0], first[0])
        assert not torch.equal(batch_at(TASK, replace(SMALL, seed=1), 7)[0], first[0])

    def test_targets_are_the_next_bytes(self) -> None:
        counting = torch.arange(200, dtype=torch.uint8)
        x, y, *_ = batch_at(Text(train=counting), SMALL, 3)
        assert x.shape == (4, 8)
        assert torch.equal(y, x + 1)
        assert torch.equal(x.diff(dim=1), torch.ones(4, 7, dtype=torch.int64))

    def test_the_shortest_text_is_enough(self) -> None:
        x, y, *_ = batch_at(Text(train=TEXT[:9]), SMALL, 0)
        assert torch.equal(x[0], TEXT[:8].long())
        assert torch.equal(y[0], TEXT[1:9].long())

    @pytest.mark.parametrize("name", COMPARED)
    def test_weights_outside_the_encoding_are_equal(self, name: str) -> None:
        plain = build(replace(SMALL, encoding="none"))
        other = build(replace(SMALL, encoding=name))
        inside = {id(parameter) for parameter in encoding_parameters(other)}
        outside = {key: value for key, value in other.named_parameters() if id(value) not in inside}
        expected = dict(plain.named_parameters())
        assert outside.keys() == expected.keys()
        assert all(torch.equal(outside[key], expected[key]) for key in expected)

    def test_they_are_equal_where_shapes_agree_if_the_encoding_widens_the_input(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plain = build(SMALL)

        def concatenating(*_: object, **__: object) -> list[pe.Encoding]:
            return [pe.Sinusoidal(4, merge="concat")]

        monkeypatch.setattr(building, "made", concatenating)
        wide = dict(build(SMALL).named_parameters())
        added = wide.keys() - dict(plain.named_parameters()).keys()
        assert added == {"embedding.project.weight", "embedding.project.bias"}
        assert all(torch.equal(wide[key], value) for key, value in plain.named_parameters())

    def test_other_seeds_give_other_weights(self) -> None:
        first, second = build(SMALL), build(replace(SMALL, seed=1))
        assert not torch.equal(first.embedding.token.weight, second.embedding.token.weight)


class TestSchedule:
    def test_the_rate_rises_then_falls_to_nothing(self) -> None:
        rates = [learning_rate(SMALL, used / 1000) for used in range(1000)]
        top = rates.index(max(rates))
        assert top == 100
        assert rates[top] == pytest.approx(SMALL.learning_rate)
        assert 0 < rates[0] < rates[99]
        assert rates[:top] == sorted(rates[:top])
        assert rates[top:] == sorted(rates[top:], reverse=True)
        assert rates[-1] < SMALL.learning_rate / 1000

    def test_only_matrices_outside_the_encoding_decay(self) -> None:
        model = build(replace(SMALL, encoding="learned"))
        decaying, steady = make_optimizer(model, SMALL).param_groups
        assert decaying["weight_decay"] == SMALL.weight_decay
        assert steady["weight_decay"] == 0
        (table,) = encoding_parameters(model)
        assert any(parameter is table for parameter in steady["params"])
        assert all(parameter.ndim >= 2 for parameter in decaying["params"])
        count = len(decaying["params"]) + len(steady["params"])
        assert count == len(list(model.parameters()))


class TestTrain:
    def test_learns(self, tmp_path: Path) -> None:
        words = torch.frombuffer(bytearray(b"the same words again. " * 100), dtype=torch.uint8)
        train(replace(SMALL, steps=100, learning_rate=0.03), Text(train=words), tmp_path)
        _, losses, _ = results(tmp_path)
        assert losses[0][1] > 4
        assert losses[-1][1] < 2

    def test_leaves_weights_rows_and_no_checkpoint(self, tmp_path: Path) -> None:
        model = train(SMALL, TASK, tmp_path)
        rows, problems = read_rows(tmp_path / RESULTS)
        assert problems == []
        assert [row["step"] for row in rows[:-1]] == list(range(1, 31))
        assert rows[-2]["tokens"] == 30 * 4 * 8
        cost = rows[-1]
        assert cost["kind"] == "cost"
        assert cost["parameters"] == sum(parameter.numel() for parameter in model.parameters())
        assert cost["encoding_parameters"] == 0
        assert (cost["trained_position"], cost["trained_distance"]) == (7, 7)
        assert cost["ms_per_step"] > 0
        assert not (tmp_path / CHECKPOINT).exists()

    def test_counts_the_tokens_that_were_read(self, tmp_path: Path) -> None:
        task, config = find("copy"), replace(SMALL, task="copy")
        train(config, task, tmp_path)
        rows, _ = read_rows(tmp_path / RESULTS)
        read = [batch_at(task, config, number).tokens.numel() for number in range(30)]
        # Lengths are drawn, so that it is not that of the longest for each.
        assert rows[-2]["tokens"] == sum(read) < 30 * 4 * task.tokens(config.train_length)

    def test_rows_past_the_train_length_stay_as_they_began(self, tmp_path: Path) -> None:
        config = replace(SMALL, encoding="learned")
        (before,) = encoding_parameters(build(config))
        (after,) = encoding_parameters(train(config, TASK, tmp_path))
        assert after.shape[0] == 16
        assert torch.equal(before[8:], after[8:])
        assert not torch.isclose(before[:8], after[:8]).any(1).all()

    @pytest.mark.parametrize("name", ["rotary", "learned", "t5"])
    def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(
        self, tmp_path: Path, name: str
    ) -> None:
        config = replace(SMALL, encoding=name, steps=100)
        (tmp_path / "whole").mkdir()
        train(config, TASK, tmp_path / "whole")
        folder = tmp_path / "parts"
        folder.mkdir()
        for stop in (1, 33, 34, 99):
            with pytest.raises(Stop):
                train(config, TASK, folder, stopping_after(stop))
            assert (folder / CHECKPOINT).exists()
            torch.rand(stop)
        train(config, TASK, folder)
        assert results(folder) == results(tmp_path / "whole")

    def test_a_run_killed_after_a_checkpoint_repeats_no_row(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "CHECKPOINT_SECONDS", -1.0)
        whole, folder = tmp_path / "whole", tmp_path / "killed"
        whole.mkdir()
        folder.mkdir()
        train(SMALL, TASK, whole)

        class Killed(BaseException):
            pass

        def kill(progress: Progress) -> None:
            if progress.step == 12:
                # The next row is on the disk, but the checkpoint is still that of this step.
                append_row(folder / RESULTS, read_rows(whole / RESULTS)[0][12])
                raise Killed

        with pytest.raises(Killed):
            train(SMALL, TASK, folder, kill)
        train(SMALL, TASK, folder)
        assert results(folder) == results(whole)

    @pytest.mark.parametrize("damage", [b"", b"\0" * 100, b"not a checkpoint"])
    def test_a_damaged_checkpoint_starts_the_run_again(
        self, tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / CHECKPOINT).write_bytes(damage)
        train(SMALL, TASK, tmp_path)
        assert "its run starts again" in caplog.text
        assert results(tmp_path)[2] == ["train"] * 30 + ["cost"]

    def test_a_checkpoint_that_counted_no_tokens_starts_the_run_again(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with pytest.raises(Stop):
            train(SMALL, TASK, tmp_path, stopping_after(7))
        with safetensors.safe_open(tmp_path / CHECKPOINT, framework="pt") as file:
            told = json.loads(file.metadata()["clock"])
        del told["tokens"]
        tensors = safetensors.torch.load_file(tmp_path / CHECKPOINT)
        save_tensors(tmp_path / CHECKPOINT, tensors, {"clock": json.dumps(told)})
        train(SMALL, TASK, tmp_path)
        assert "its run starts again (its clock tells of {'step': 7" in caplog.text
        assert read_rows(tmp_path / RESULTS)[0][-2]["tokens"] == 30 * 4 * 8

    def test_a_loss_that_is_not_a_number_ends_the_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        forward = pe.Transformer.forward
        calls = []

        def poisoned(model: pe.Transformer, *given: Any) -> Tensor:
            calls.append(1)
            return forward(model, *given) * (math.nan if len(calls) == 5 else 1)

        monkeypatch.setattr(pe.Transformer, "forward", poisoned)
        with pytest.raises(LabError, match=r"became nan at step 5: .*`posenc check rotary`"):
            train(SMALL, TASK, tmp_path)
        assert not (tmp_path / WEIGHTS).exists()

    def test_minutes_end_a_run_by_the_clock(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ticks = iter(range(10**6))
        monkeypatch.setattr(module.time, "perf_counter", lambda: float(next(ticks)))
        told: list[Progress] = []
        train(replace(SMALL, steps=None, minutes=0.25), TASK, tmp_path, told.append)
        assert [progress.step for progress in told] == list(range(1, 16))
        assert told[-1].fraction == 1
        assert told[0].tokens_per_second == 32
        assert read_rows(tmp_path / RESULTS)[0][-1]["steps"] == 15


def test_the_clock_counts_what_the_budget_is_in() -> None:
    assert Clock(step=15).used(SMALL) == 0.5
    assert Clock(seconds=15).used(replace(SMALL, steps=None, minutes=0.5)) == 0.5
