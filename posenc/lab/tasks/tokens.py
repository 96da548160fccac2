"""Say the next token of a text."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import nn

from posenc.lab.config import RunConfig
from posenc.lab.tasks.task import Row, Tell, missing
from posenc.lab.tasks.tokenized import Tokenized, scored


@dataclass(frozen=True, eq=False)
class Tokens(Tokenized):
    """Language modelling of tokens, tested on stretches of the test text that the seed draws.

    The last tokens of each stretch are scored with more and more of it before them, in nats per
    token. With `gap` so many positions are left out behind the first `first` tokens, as if a text
    had been read there and dropped again.
    """

    name: ClassVar[str] = "tokens"
    kind: ClassVar[str] = "language"
    shortest: ClassVar[int] = 8

    gap: int = field(default=0, metadata={"least": 0})
    first: int = 4

    def evaluate(self, model: nn.Module, config: RunConfig, tell: Tell) -> Iterator[Row]:
        """A row `loss` of protocol `targets` for each length, with the means of each stretch."""
        material = self.material(config, config.spans, max(config.test_lengths) + 1)
        total, done = config.spans * sum(config.test_lengths), 0
        for length in config.test_lengths:
            found = []
            places = torch.arange(length + 1)
            places = places + self.gap * (places >= self.first)
            try:
                for span in range(config.spans):
                    ids = material.span(span, length + 1)
                    first = len(ids) - config.target_tokens
                    loss, _ = scored(model, config, ids, first, places if self.gap else None)
                    found.append(loss)
                    done += length
                    tell(done / total)
            except Exception as error:
                if length <= config.train_length:
                    raise
                yield missing(length, error) | {"protocol": "targets"}
                continue
            losses = torch.stack(found)
            finite = bool(losses.isfinite().all())
            means = {"spans": [round(x, 6) for x in losses.mean(1).tolist()]} if finite else {}
            yield {
                "kind": "loss",
                "protocol": "targets",
                "length": length,
                "tokens": losses.numel(),
                "loss": losses.mean().item() if finite else None,
                **means,
            }
