"""Settings of tasks: positions that they give, and lengths and values that they refuse."""

from dataclasses import fields

import pytest
import torch

from posenc.errors import SettingError
from posenc.lab.config import RunConfig
from posenc.lab.model import build
from posenc.lab.placing import placed
from posenc.lab.tasks import Batch, find, names
from posenc.lab.tasks.generated import Generated


class TestCoupling:
    """Digits that are worth the same stand at one position."""

    task = find("addition(coupled=True, limit=12)")

    def config(self) -> RunConfig:
        size = {"train_length": 2, "test_lengths": (2,), "dim": 16, "spans": 3}
        return RunConfig("learned", task=self.task.spec, **size)

    def batch(self, length: int, count: int) -> Batch:
        assert isinstance(self.task, Generated)
        return self.task.sample(length, count, torch.Generator().manual_seed(0))

    def test_ids_say_what_a_digit_is_worth(self) -> None:
        batch = self.batch(3, 200)
        assert batch.ids is not None
        assert batch.ids.shape == batch.tokens.shape
        signs = set()
        for *first, plus, a, b, c, equals, d, e, f in batch.ids.tolist():
            assert plus == equals
            # The answer's fourth digit is said, but not read.
            assert first == [a, b, c] == [d, e, f] == [plus + 1, plus + 2, plus + 3]
            signs.add(plus)
        # They begin wherever four digits have room behind the sign.
        assert signs == {*range(12 - 4)}

    def test_a_table_has_a_row_for_every_position(self) -> None:
        config = self.config()
        model = build(config, self.task).eval()
        # Two digits are 8 tokens, which stand at 12 positions.
        assert dict(model.named_parameters())["embedding.encodings.0.weight"].shape[0] == 12
        with torch.inference_mode():
            (row,) = self.task.evaluate(model, config, lambda share: None)
        assert (row["kind"], row["length"]) == ("accuracy", 2)

    def test_a_model_reads_them(self) -> None:
        config, batch = self.config(), self.batch(2, 1)
        assert batch.ids is not None
        model = build(config, self.task).eval()
        other = batch._replace(ids=batch.ids.flip(1))
        with torch.inference_mode():
            said, else_ = (
                model(batch.tokens, placed(config, one, causal=True)) for one in (batch, other)
            )
        assert not torch.allclose(said, else_)


@pytest.mark.parametrize(
    ("spec", "length", "told"),
    [
        ("recall(keys=8)", 9, "from 1 to 8"),
        ("sort(keys=8, distinct=True)", 9, "from 1 to 8"),
        ("addition(hints='index', limit=8)", 8, "from 1 to 7"),
        ("addition(coupled=True, limit=8)", 7, "from 1 to 6"),
        ("repeat(digits=1)", 10, "from 1 to 9"),
        ("even_pairs", 1, "from 2"),
    ],
)
def test_a_length_without_examples_is_refused_before_training(
    spec: str, length: int, told: str
) -> None:
    config = RunConfig("none", task=spec, train_length=4, test_lengths=(4, length))
    with pytest.raises(SettingError, match=rf"examples of length {length}: its lengths are {told}"):
        build(config)


@pytest.mark.parametrize(
    "spec",
    [
        "needle(depth=1.5)",
        "offset(back=0)",
        "addition(hints='letters')",
        "addition(base=1)",
        "addition(hints='index', coupled=True)",
        "flip_flop(ignored=2)",
        "repeat(digits=-1)",
    ],
)
def test_settings_that_make_no_task_are_refused(spec: str) -> None:
    with pytest.raises(SettingError, match=spec.split("(")[0]):
        find(spec)


COUNTS = [
    (name, field.name)
    for name, kind in names().items()
    for field in fields(kind)
    if field.type in (int, int | None)
]


@pytest.mark.parametrize(("name", "setting"), COUNTS)
def test_counts_are_whole_numbers(name: str, setting: str) -> None:
    for value in ("-1", "2.5", "True", "'8'"):
        with pytest.raises(SettingError, match=rf"{name}\({setting}={value}\): .*whole number"):
            find(f"{name}({setting}={value})")


@pytest.mark.parametrize("value", ["3", "None", "True", "('a',)"])
def test_texts_are_texts(value: str) -> None:
    with pytest.raises(
        SettingError, match=r"tokens\(tokenizer=.*\): tokenizer is a text, in quotes"
    ):
        find(f"tokens(tokenizer={value})")


@pytest.mark.parametrize(("name", "setting"), COUNTS)
def test_the_least_of_a_count_makes_examples(name: str, setting: str) -> None:
    (own,) = (field for field in fields(names()[name]) if field.name == setting)
    task = find(f"{name}({setting}={own.metadata.get('least', 1)})")
    if isinstance(task, Generated):
        task.sample(task.shortest, 5, torch.Generator().manual_seed(0))


def test_many_tasks_have_counts() -> None:
    assert len({name for name, _ in COUNTS}) > 10
    with pytest.raises(SettingError, match=r"sort\(distinct='no'\): distinct is False or True"):
        find("sort(distinct='no')")
