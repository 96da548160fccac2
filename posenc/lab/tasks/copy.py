"""Say it again."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated, answered
from posenc.lab.tasks.task import Batch


@dataclass(frozen=True)
class Copy(Generated):
    """a c b > a c b: the letters that were read, in their order. A length counts letters.

    Letter i of the answer is length + 1 tokens behind its original, so that each length asks for
    a distance of its own. The answer's end is not told, and not asked for.
    """

    name: ClassVar[str] = "copy"
    kind: ClassVar[str] = "copy"
    source: ClassVar[str] = "Kazemnejad et al. 2023, arXiv:2305.19466 (copy)"

    letters: int = 10

    @property
    def vocabulary(self) -> int:
        return self.letters + 1

    def tokens(self, length: int) -> int:
        return 2 * length

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        text = torch.randint(self.letters, (count, length), generator=generator)
        mark = torch.full((count, 1), self.letters)
        return answered(torch.cat([text, mark], dim=1), text)

    def chance(self, length: int) -> float:
        return self.letters**-length
