"""Say the next byte of a text."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import UInt8
from torch import Tensor, nn

from posenc.lab.config import RunConfig
from posenc.lab.evaluate import evaluate
from posenc.lab.tasks.task import Batch, Row, Task, Tell

EMPTY = torch.zeros(0, dtype=torch.uint8)


@dataclass(frozen=True, eq=False)
class Text(Task):
    """Language modelling of bytes; a length counts them, and every byte is scored.

    Tested as `posenc.lab.evaluate` says, in nats per byte: chance is ln 256 = 5.5. `train_bytes`
    are so many of the first bytes to train on, None all of them. Without texts nothing can be
    trained, but a model can be planned.
    """

    name: ClassVar[str] = "text"
    kind: ClassVar[str] = "language"
    shortest: ClassVar[int] = 8

    train_bytes: int | None = None
    train: UInt8[Tensor, " n"] = field(default=EMPTY, repr=False)
    test: UInt8[Tensor, " n"] = field(default=EMPTY, repr=False)

    @property
    def vocabulary(self) -> int:
        return 256

    def batch(self, config: RunConfig, generator: torch.Generator) -> Batch:
        """Stretches of the train length from anywhere in the text, and the bytes after each."""
        text = self.train[: self.train_bytes]
        starts = torch.randint(
            len(text) - config.train_length, (config.batch,), generator=generator
        )
        chosen = text[starts[:, None] + torch.arange(config.train_length + 1)].long()
        tokens = chosen[:, :-1]
        return Batch(tokens, chosen[:, 1:], torch.ones_like(tokens, dtype=torch.bool))

    def evaluate(self, model: nn.Module, config: RunConfig, tell: Tell) -> Iterator[Row]:
        return evaluate(model, config, self.test, tell)
