"""Settings of tasks: positions that they give, and lengths and values that they refuse."""

import pytest

from posenc.errors import SettingError
from posenc.lab.config import RunConfig
from posenc.lab.model import build
from posenc.lab.tasks import find


@pytest.mark.parametrize(
    ("spec", "length", "told"),
    [
        ("recall(keys=8)", 9, "from 1 to 8"),
        ("sort(keys=8, distinct=True)", 9, "from 1 to 8"),
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
        "flip_flop(ignored=2)",
        "repeat(digits=-1)",
    ],
)
def test_settings_that_make_no_task_are_refused(spec: str) -> None:
    with pytest.raises(SettingError, match=spec.split("(")[0]):
        find(spec)
