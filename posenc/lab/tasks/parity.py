"""Tell an even number of ones from an odd one."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated, asked
from posenc.lab.tasks.task import Batch

MARK = 2


@dataclass(frozen=True)
class Parity(Generated):
    """1 0 1 1 ?: 1 where the number of ones is odd, said by an encoder. A length counts bits.

    Every bit turns the answer, wherever it stands. It is a control: Ruoss et al. 2023
    (arXiv:2305.16843) find Transformers near chance at new lengths with every encoding.
    """

    name: ClassVar[str] = "parity"
    kind: ClassVar[str] = "state"
    causal: ClassVar[bool] = False
    source: ClassVar[str] = "Deletang et al. 2023, arXiv:2207.02098 (parity check)"

    @property
    def vocabulary(self) -> int:
        return MARK + 1

    def tokens(self, length: int) -> int:
        return length + 1

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        bits = torch.randint(2, (count, length), generator=generator)
        return asked(bits, bits.sum(1, keepdim=True) % 2, MARK)

    def chance(self, length: int) -> float:
        return 0.5
