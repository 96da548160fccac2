"""Set-ups that several claims share, so that each run is made once."""

from dataclasses import replace
from typing import Any

from posenc.claims.claim import Size
from posenc.lab.config import RunConfig


def text(encoding: str, size: Size = "small", **over: Any) -> RunConfig:
    """Bytes of Python's standard library, as `posenc compare` reads them without options."""
    small = RunConfig(encoding)
    if size == "large":
        small = replace(
            small,
            train_length=512,
            test_lengths=(512, 1024, 2048, 4096),
            dim=512,
            depth=8,
            heads=8,
            batch=32,
            steps=20000,
            learning_rate=8e-4,
            precision="bfloat16",
        )
    return replace(small, **over)


def made(
    encoding: str,
    task: str,
    size: Size = "small",
    *,
    train: int = 10,
    times: tuple[float, ...] = (1, 1.1, 1.2, 1.5, 2),
    **over: Any,
) -> RunConfig:
    """A task that is made by a rule; test lengths are so many times the train length."""
    small = RunConfig(
        encoding,
        task=task,
        train_length=train,
        test_lengths=tuple(dict.fromkeys(round(each * train) for each in times)),
        dim=64,
        depth=2,
        heads=4,
        batch=64,
        steps=1500,
        learning_rate=3e-3,
        spans=256,
    )
    if size == "large":
        small = replace(
            small, dim=256, depth=4, heads=8, batch=128, steps=20000, learning_rate=1e-3
        )
    return replace(small, **over)
