"""Say it again, the last letter first."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated, answered
from posenc.lab.tasks.task import Batch


@dataclass(frozen=True)
class Reverse(Generated):
    """a c b > b c a: the letters that were read, the last one first. A length counts letters.

    Letter i of the answer, counted from 1, is 2 * i tokens behind its original, so that one example
    asks for many distances, and longer ones for more.
    """

    name: ClassVar[str] = "reverse"
    kind: ClassVar[str] = "copy"
    source: ClassVar[str] = "Kazemnejad et al. 2023, arXiv:2305.19466 (reverse)"

    letters: int = 10

    @property
    def vocabulary(self) -> int:
        return self.letters + 1

    def tokens(self, length: int) -> int:
        return 2 * length

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        text = torch.randint(self.letters, (count, length), generator=generator)
        mark = torch.full((count, 1), self.letters)
        return answered(torch.cat([text, mark], dim=1), text.flip(1))

    def chance(self, length: int) -> float:
        return self.letters**-length
