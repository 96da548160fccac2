"""Find a number that a text hides."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from posenc.errors import SettingError
from posenc.lab.config import RunConfig
from posenc.lab.tasks.task import Row, Tell
from posenc.lab.tasks.tokenized import Tokenized, scored

DIGITS = 5


@dataclass(frozen=True, eq=False)
class Passkey(Tokenized):
    """A number of five digits stands somewhere in a text, and the end of the text asks for it.

    A length counts tokens of all together, `depth` is the share of the text before the number, and
    a seed draws numbers and text. It is said when greedy decoding says each of its tokens.
    Trained on it is the text itself.

    Source: Mohtashami and Jaggi 2023, arXiv:2305.16300.
    """

    name: ClassVar[str] = "passkey"
    kind: ClassVar[str] = "recall"
    shortest: ClassVar[int] = 64
    own_examples: ClassVar[bool] = True

    depth: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.depth <= 1:
            raise SettingError(f"passkey(depth={self.depth}): depth is a share from 0 to 1")

    def evaluate(self, model: nn.Module, config: RunConfig, tell: Tell) -> Iterator[Row]:
        """A row `accuracy` for each length, as made tasks have them; `spans` numbers are hidden."""
        material = self.material(config, 1, max(config.test_lengths))
        total, done = config.spans * sum(config.test_lengths), 0
        for length in config.test_lengths:
            exact, said, losses = 0, [], []
            for index in range(config.spans):
                hidden = material.passkey(length, self.depth, f"{config.seed}/{index}")
                loss, right = scored(model, config, hidden.ids, hidden.first)
                exact += int(right.all())
                said.append(right)
                losses.append(loss)
                done += length
                tell(done / total)
            loss = torch.cat(losses)
            yield {
                "kind": "accuracy",
                "length": length,
                "examples": config.spans,
                "exact": exact,
                "token": torch.cat(said).double().mean().item(),
                "chance": 10.0**-DIGITS,
                "loss": loss.mean().item() if loss.isfinite().all() else None,
            }
