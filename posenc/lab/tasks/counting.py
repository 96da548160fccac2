"""Count since the last new beginning."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated, answered
from posenc.lab.tasks.task import Batch

PASS, SET, ADD, PRINT, ZERO = range(5)


@dataclass(frozen=True)
class Counting(Generated):
    """+ = . + . + ? > 2: how often + came since the last =. A length counts tokens before the ?.

    All answers from 0 to `most` that have room are equally frequent, so that neither counting
    everything nor guessing by the length is of use; shorter lengths than `most` + 1 train only the
    smaller ones. In the source several variables are counted.
    """

    name: ClassVar[str] = "counting"
    kind: ClassVar[str] = "state"
    source: ClassVar[str] = "Golovneva et al. 2024, arXiv:2405.18719 (counting)"

    most: int = 9

    @property
    def vocabulary(self) -> int:
        return ZERO + self.most + 1

    def tokens(self, length: int) -> int:
        return length + 1

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        answer = torch.randint(self._answers(length), (count, 1), generator=generator)
        # As many tokens at least follow the last = as are counted.
        share = torch.rand(count, 1, generator=generator)
        last = (share * (length - answer)).long()
        place = torch.arange(length)
        drawn = torch.rand(count, length, generator=generator)
        rank = drawn.masked_fill(place <= last, 1).argsort(1).argsort(1)
        after = torch.where(rank < answer, ADD, PASS)
        before = torch.randint(ADD + 1, (count, length), generator=generator)
        read = torch.where(place < last, before, after).scatter(1, last, SET)
        ask = torch.full((count, 1), PRINT)
        return answered(torch.cat([read, ask], dim=1), ZERO + answer)

    def chance(self, length: int) -> float:
        return 1 / self._answers(length)

    def _answers(self, length: int) -> int:
        return min(self.most, length - 1) + 1
