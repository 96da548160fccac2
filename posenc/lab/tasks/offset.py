"""Say the letter that stood so many places before."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated, answered
from posenc.lab.tasks.task import Batch


@dataclass(frozen=True)
class Offset(Generated):
    """a b a c ? > c for back=1: the letter `back` places before the question.

    A length counts letters up to that one; back - 1 others follow. Letters come again, so that it
    is told by its place alone, which one layer without positions does not see.
    """

    name: ClassVar[str] = "offset"
    kind: ClassVar[str] = "order"
    source: ClassVar[str] = "Barbero et al. 2025, arXiv:2410.06205 (positional heads)"

    letters: int = 10
    back: int = 1

    @property
    def vocabulary(self) -> int:
        return self.letters + 1

    def tokens(self, length: int) -> int:
        return length + self.back

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        letters = length + self.back - 1
        text = torch.randint(self.letters, (count, letters), generator=generator)
        ask = torch.full((count, 1), self.letters)
        return answered(torch.cat([text, ask], dim=1), text[:, length - 1 : length])

    def chance(self, length: int) -> float:
        return 1 / self.letters
