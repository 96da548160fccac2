"""The comparison takes every encoding that does not say why not."""

import math
from pathlib import Path

import pytest
import torch

import posenc as pe
from posenc.lab.config import RunConfig
from posenc.lab.evaluate import evaluate
from posenc.lab.folder import RESULTS, read_rows
from posenc.lab.model import encoding_parameters
from posenc.lab.tasks.text import Text
from posenc.lab.train import train

COMPARABLE = [name for name, kind in pe.encodings().items() if kind.tags.comparable is True]
TEXT = torch.randint(
    97, 123, (2000,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)


@pytest.mark.parametrize("name", COMPARABLE)
def test_it_is_trained_and_tested_at_twice_the_length(name: str, tmp_path: Path) -> None:
    config = RunConfig(
        name,
        train_length=8,
        test_lengths=(8, 16),
        dim=16,
        depth=2,
        heads=2,
        batch=4,
        steps=3,
        spans=4,
    )
    model = train(config, Text(train=TEXT), tmp_path)
    rows = [*read_rows(tmp_path / RESULTS)[0], *evaluate(model, config, TEXT)]
    assert [row["step"] for row in rows if row["kind"] == "train"] == [1, 2, 3]
    assert not [row for row in rows if row["kind"] == "missing"]
    losses = [row["loss"] for row in rows if row["kind"] == "loss"]
    assert len(losses) == 4
    assert all(math.isfinite(loss) for loss in losses)
    for parameter in encoding_parameters(model):
        assert parameter.grad is None or parameter.grad.isfinite().all()
        assert bool(parameter.isfinite().all())
