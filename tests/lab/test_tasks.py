"""Tasks: what they ask is what they say, and one right answer is told from wrong ones."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from posenc.errors import SettingError, UnknownNameError
from posenc.lab.config import RunConfig
from posenc.lab.folder import RESULTS, read_rows
from posenc.lab.model import build
from posenc.lab.rows import parse_row
from posenc.lab.step import batch_at
from posenc.lab.tasks import Batch, Task, find, names
from posenc.lab.tasks.generated import Generated
from posenc.lab.train import train

GENERATED = {name: find(name) for name, kind in names().items() if issubclass(kind, Generated)}
LENGTHS = (1, 2, 3, 5, 8)


def lengths_of(task: Task) -> list[int]:
    return [n for n in range(task.shortest, task.shortest + 12) if n in LENGTHS or n < 6]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Knows(nn.Module):
    """A model that says what it is given to say."""

    def __init__(self, batch: Batch, vocabulary: int, wrong: Tensor | None = None) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.zeros(()))
        says = (
            batch.targets if wrong is None else torch.where(wrong, batch.targets + 1, batch.targets)
        )
        self.logits = nn.functional.one_hot(says % vocabulary, vocabulary).float() * 50

    def forward(self, tokens: Tensor, positions: Any = None) -> Tensor:
        first, self.logits = self.logits[: len(tokens)], self.logits[len(tokens) :]
        return first


@pytest.mark.parametrize("name", GENERATED)
class TestEvery:
    def test_it_says_its_own_name(self, name: str) -> None:
        task = GENERATED[name]
        assert find(task.spec) == task
        assert task.source
        assert task.__doc__

    def test_examples_have_the_size_told(self, name: str) -> None:
        task = GENERATED[name]
        for length in lengths_of(task):
            batch = task.sample(length, 7, seeded())
            assert batch.tokens.shape == batch.targets.shape == batch.scored.shape
            assert batch.tokens.shape == (7, task.tokens(length))
            assert batch.scored.any(1).all()
            for tokens in (batch.tokens, batch.targets[batch.scored]):
                assert 0 <= int(tokens.min()) <= int(tokens.max()) < task.vocabulary
            assert 0 <= task.chance(length) <= 1

    def test_the_generator_alone_decides(self, name: str) -> None:
        task, length = GENERATED[name], GENERATED[name].shortest + 5
        first, same = (task.sample(length, 9, seeded(3)) for _ in range(2))
        torch.manual_seed(5)
        other = task.sample(length, 9, seeded(4))
        assert torch.equal(first.tokens, same.tokens)
        assert torch.equal(first.targets, same.targets)
        assert not torch.equal(first.tokens, other.tokens)

    def test_a_decoder_is_shown_the_answer_up_to_each_place(self, name: str) -> None:
        task = GENERATED[name]
        batch = task.sample(task.shortest + 3, 5, seeded())
        if task.causal:
            assert torch.equal(batch.tokens[:, 1:], batch.targets[:, :-1])

    def test_what_is_asked_follows_from_what_is_read(self, name: str) -> None:
        """The same question never has two answers."""
        task = GENERATED[name]
        batch = task.sample(task.shortest, 500, seeded())
        answers: dict[Any, Any] = {}
        for tokens, targets, scored in zip(*(x.tolist() for x in batch[:3]), strict=True):
            for place, asked in enumerate(scored):
                if asked:
                    read = tuple(tokens[: place + 1] if task.causal else tokens)
                    assert answers.setdefault((read, place), targets[place]) == targets[place]


def config_of(task: Task, **over: Any) -> RunConfig:
    length = task.shortest + 2
    small = {"encoding": "none", "dim": 16, "heads": 2, "depth": 1, "spans": 40}
    size = {"train_length": length, "test_lengths": (length,)}
    return RunConfig(**{"task": task.spec} | small | size | over)


class TestScoring:
    task = GENERATED["copy"]

    def rows(self, model: nn.Module, config: RunConfig) -> list[dict[str, Any]]:
        with torch.inference_mode():
            return list(self.task.evaluate(model, config, lambda share: None))

    def batch(self, config: RunConfig) -> Batch:
        length = config.test_lengths[0]
        return self.task.sample(length, config.spans, self.task._generator("test", length))

    def test_who_knows_it_all_is_right(self) -> None:
        config = config_of(self.task)
        (row,) = self.rows(Knows(self.batch(config), self.task.vocabulary), config)
        assert (row["exact"], row["examples"], row["token"]) == (40, 40, 1.0)
        assert row["loss"] < 1e-6
        assert row["chance"] == pytest.approx(self.task.chance(3))
        assert parse_row(json.dumps(row).encode()) == row

    def test_one_wrong_place_makes_an_answer_wrong(self) -> None:
        config = config_of(self.task)
        batch = self.batch(config)
        wrong = torch.zeros_like(batch.scored)
        wrong[3, -1] = wrong[8, -2] = wrong[8, -1] = True
        (row,) = self.rows(Knows(batch, self.task.vocabulary, wrong), config)
        assert row["exact"] == 38
        assert row["token"] == pytest.approx(1 - 3 / 120)

    def test_what_is_not_scored_does_not_count(self) -> None:
        config = config_of(self.task)
        batch = self.batch(config)
        (row,) = self.rows(Knows(batch, self.task.vocabulary, ~batch.scored), config)
        assert row["exact"] == 40

    def test_a_length_that_cannot_be_served_is_missing(self) -> None:
        class Short(Knows):
            def forward(self, tokens: Tensor, positions: Any = None) -> Tensor:
                if tokens.shape[1] > 6:
                    raise ValueError("too long")
                return super().forward(tokens)

        config = config_of(self.task, test_lengths=(3, 9))
        first, second = self.rows(Short(self.batch(config), self.task.vocabulary), config)
        assert first["kind"] == "accuracy"
        assert second == {"kind": "missing", "length": 9, "reason": "ValueError: too long"}
        with pytest.raises(ValueError, match="too long"):
            self.rows(
                Short(self.batch(config), self.task.vocabulary), replace(config, train_length=9)
            )


class TestTraining:
    task = GENERATED["copy"]

    def test_every_length_up_to_the_train_length_is_met(self) -> None:
        config = config_of(self.task, train_length=4)
        seen = [batch_at(self.task, config, step) for step in range(60)]
        letters = [int((batch.tokens == self.task.letters).nonzero()[0, 1]) for batch in seen]
        assert {*letters} == {1, 2, 3, 4}

    def test_data_and_weights_have_seeds_of_their_own(self) -> None:
        config = config_of(self.task)
        same = replace(config, seed=1, data_seed=0)
        assert torch.equal(
            batch_at(self.task, config, 3).tokens, batch_at(self.task, same, 3).tokens
        )
        other = replace(config, seed=1)
        assert not torch.equal(
            batch_at(self.task, config, 3).tokens, batch_at(self.task, other, 3).tokens
        )

    def test_a_solved_task_ends_early(self, tmp_path: Path) -> None:
        easy = find("copy(letters=2)")
        config = config_of(easy, train_length=1, steps=400, learning_rate=0.01, solved=0.99)
        train(config, easy, tmp_path)
        rows, _ = read_rows(tmp_path / RESULTS)
        (cost,) = [row for row in rows if row["kind"] == "cost"]
        assert cost["solved"] < 340
        # What is left of the schedule: a tenth.
        assert cost["steps"] == cost["solved"] + 40

    def test_a_run_begins_with_the_weights_of_another(self, tmp_path: Path) -> None:
        base = config_of(self.task, steps=5)
        model = train(base, self.task, _folder(tmp_path, base))
        asis = replace(base, encoding="rotary", base=base.name, steps=0)
        again = train(asis, self.task, _folder(tmp_path, asis))
        own, theirs = dict(again.named_parameters()), dict(model.named_parameters())
        assert all(torch.equal(own[key], value) for key, value in theirs.items())
        tuned = replace(asis, steps=3)
        moved = train(tuned, self.task, _folder(tmp_path, tuned))
        change = max((p - theirs[n]).abs().max().item() for n, p in moved.named_parameters())
        assert 0 < change < 0.2

    def test_random_positions_are_trained_past_the_tokens_there_are(self, tmp_path: Path) -> None:
        config = config_of(self.task, encoding="learned", positions="random(longest=64)", steps=4)
        row = "embedding.encodings.0.weight"
        began = dict(build(config, self.task).named_parameters())[row]
        ended = dict(train(config, self.task, tmp_path).named_parameters())[row]
        assert began.shape[0] == 64
        moved = (began != ended).any(1).nonzero()
        # Nothing read has more than six tokens.
        assert len(moved) > 20
        assert moved.max() > 50

    def test_the_whole_way_of_bfloat16(self, tmp_path: Path) -> None:
        config = config_of(self.task, steps=3, precision="bfloat16")
        model = train(config, self.task, tmp_path).eval()
        with torch.inference_mode():
            (row,) = self.task.evaluate(model, config, lambda share: None)
        assert math.isfinite(row["loss"])


def _folder(out: Path, config: RunConfig) -> Path:
    folder = out / config.name
    folder.mkdir()
    return folder


def test_wrong_names_and_settings_are_told() -> None:
    with pytest.raises(UnknownNameError, match="copi"):
        find("copi")
    with pytest.raises(SettingError, match=r"task copy\(letter=3\)"):
        find("copy(letter=3)")
    assert find("copy(letters=26)").spec == "copy(letters=26)"
