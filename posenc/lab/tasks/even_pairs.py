"""Tell an even number of changes from an odd one."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated, asked
from posenc.lab.tasks.task import Batch

MARK = 2


@dataclass(frozen=True)
class EvenPairs(Generated):
    """0 0 1 0 1 ?: 1 where 01 and 10 come an odd number of times. A length counts bits.

    Which is whether the first bit is another than the last: who finds both ends need not count.
    """

    name: ClassVar[str] = "even_pairs"
    kind: ClassVar[str] = "state"
    causal: ClassVar[bool] = False
    shortest: ClassVar[int] = 2
    source: ClassVar[str] = "Deletang et al. 2023, arXiv:2207.02098 (even pairs)"

    @property
    def vocabulary(self) -> int:
        return MARK + 1

    def tokens(self, length: int) -> int:
        return length + 1

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        bits = torch.randint(2, (count, length), generator=generator)
        changes = bits.diff(dim=1).abs().sum(1, keepdim=True)
        return asked(bits, changes % 2, MARK)

    def chance(self, length: int) -> float:
        return 0.5
