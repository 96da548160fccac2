"""Say what belongs to each of many keys."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated
from posenc.lab.tasks.task import Batch


@dataclass(frozen=True)
class Recall(Generated):
    """a 3 b 1 c 3 > b 1 c 3 a 3: keys with values, then every key again, and its value is scored.

    Multi-query associative recall. A length counts pairs; keys differ, and are asked for in an
    order of their own. In the source the questions stand among other tokens, most of them soon
    after the pairs, and values differ as keys do.
    """

    name: ClassVar[str] = "recall"
    kind: ClassVar[str] = "recall"
    source: ClassVar[str] = "Arora et al. 2023, arXiv:2312.04927 (multi-query associative recall)"

    keys: int = 256
    values: int = 16

    @property
    def vocabulary(self) -> int:
        """Keys, values, and a mark between pairs and questions."""
        return self.keys + self.values + 1

    @property
    def longest(self) -> int:
        return self.keys

    def tokens(self, length: int) -> int:
        return 4 * length

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        self.check(length)
        keys = torch.rand(count, self.keys, generator=generator).argsort(1)[:, :length]
        values = self.keys + torch.randint(self.values, (count, length), generator=generator)
        pairs = torch.stack([keys, values], dim=2)
        order = torch.rand(count, length, generator=generator).argsort(1)
        questions = pairs.take_along_dim(order[:, :, None], 1)
        mark = torch.full((count, 1), self.vocabulary - 1)
        whole = torch.cat([pairs.flatten(1), mark, questions.flatten(1)], dim=1)
        tokens, targets = whole[:, :-1], whole[:, 1:]
        place = torch.arange(tokens.shape[1])
        # The pairs and the mark are 2 * length + 1 tokens, so keys that are asked for are odd.
        scored = (place > 2 * length) & (place % 2 == 1)
        return Batch(tokens, targets, scored.expand_as(tokens))

    def chance(self, length: int) -> float:
        return self.values**-length
