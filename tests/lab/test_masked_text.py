"""Hidden bytes of a text: what is read, what is asked, and what is scored."""

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc.atomic_files import write_json
from posenc.errors import SettingError
from posenc.lab.config import RunConfig
from posenc.lab.folder import MANIFEST, RESULTS, append_row
from posenc.lab.rates import looking, with_rate
from posenc.lab.run import Assignment
from posenc.lab.tasks import find
from posenc.lab.tasks.masked_text import MASK, MaskedText

CONFIG = RunConfig(
    "none", task="masked_text", train_length=20, test_lengths=(20, 40), batch=5, spans=3
)
TEXT = torch.arange(200, dtype=torch.uint8)


class Echo(nn.Module):
    """A model that says what it reads, surely, and anything alike where that is hidden."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.ones(()))

    def forward(self, tokens: Tensor) -> Tensor:
        return 90 * F.one_hot(tokens, MASK + 1) * (tokens != MASK)[..., None]


def test_what_is_hidden_is_asked() -> None:
    task = find(CONFIG.task, train=TEXT, test=TEXT)
    batch = task.batch(CONFIG, torch.Generator().manual_seed(1))
    assert torch.equal(batch.tokens == MASK, batch.scored)
    assert batch.scored.sum(1).tolist() == [3] * 5
    assert torch.equal(batch.targets.diff(dim=1), torch.ones(5, 19, dtype=torch.int64))
    assert torch.equal(batch.tokens[~batch.scored], batch.targets[~batch.scored])


def test_a_short_text_has_something_hidden() -> None:
    task = find("masked_text(share=0.01)", train=TEXT, test=TEXT)
    batch = task.batch(CONFIG, torch.Generator().manual_seed(1))
    assert batch.scored.sum(1).tolist() == [1] * 5


def test_the_loss_is_that_of_hidden_bytes() -> None:
    task = find(CONFIG.task, train=TEXT, test=TEXT)
    rows = list(task.evaluate(Echo(), CONFIG, lambda share: None))
    # Three spans are six windows of 20 bytes, or three of 40.
    assert [(row["length"], row["tokens"]) for row in rows] == [(20, 18), (40, 18)]
    for row in rows:
        assert row["loss"] == pytest.approx(math.log(MASK + 1))


def test_a_run_of_it_reads_the_corpus(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(bytes(range(100)))
    assert CONFIG.of_text
    given = Assignment(CONFIG, tmp_path, path, {"train_bytes": 60, "test_bytes": 40}, 1)
    task = given.task()
    assert isinstance(task, MaskedText)
    assert task.train.tolist() == [*range(60)]


def test_the_best_rate_is_told_by_windows(tmp_path: Path) -> None:
    rates = (0.5, 0.01, 0.1)
    for config, loss in zip(looking(rates, CONFIG), (3.0, 2.0, 1.0), strict=True):
        folder = tmp_path / "runs" / config.name
        folder.mkdir(parents=True)
        write_json(folder / MANIFEST, {"config": config.to_json()})
        row = {"kind": "loss", "protocol": "windows", "length": 20, "tokens": 18, "loss": loss}
        append_row(folder / RESULTS, row)
        append_row(folder / RESULTS, {"kind": "done", "seconds": 1.0})
    found = with_rate(rates, CONFIG, tmp_path)
    assert found is not None
    assert found.learning_rate == 0.1


@pytest.mark.parametrize("share", [0, 1.5, -0.1])
def test_a_share_lies_between_nothing_and_all(share: float) -> None:
    with pytest.raises(SettingError, match="share"):
        find(f"masked_text(share={share})")
