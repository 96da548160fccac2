"""The lab on trained weights: a window without the first tokens costs, and sinks mend it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from posenc.lab.config import RunConfig
from posenc.lab.model import build
from posenc.lab.tasks import find
from tests.support.trained import smollm2

pytestmark = pytest.mark.trained


def test_smollm2_needs_its_first_tokens() -> None:
    folder = smollm2()
    run = RunConfig(
        "window(width=64) + rotary",
        model=str(folder),
        task="tokens",
        train_length=8192,
        test_lengths=(128, 512),
        steps=0,
        spans=1,
    )
    code = Path(__file__).parents[2].joinpath("posenc", "attention.py").read_bytes()
    text = torch.frombuffer(bytearray(code), dtype=torch.uint8)
    losses = []
    for encoding in (run.encoding, "sinks(count=4, window=60)"):
        one = replace(run, encoding=encoding)
        task = find(one.task, source=folder, train=text, test=text)
        with torch.inference_mode():
            *_, row = task.evaluate(build(one), one, lambda share: None)
        losses.append(row["loss"])
    assert losses[0] > losses[1] + 0.1
