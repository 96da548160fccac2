"""Say one letter, as often as was said."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated, answered
from posenc.lab.tasks.task import Batch

TALLIED = 1
BASE = 10


@dataclass(frozen=True)
class Repeat(Generated):
    """a 0 3 > a a a .: a letter as often as the number says, and an end, which is scored, too.

    A length counts letters of the answer. The number has always as many digits, the highest one
    first; with digits=0 it is as many strokes instead, a | | | > a a a ., which can be counted
    past every number that was trained.

    In the source a whole sequence is repeated, and the number is the size of an input. The chance
    is that of a guess which knows the length.
    """

    name: ClassVar[str] = "repeat"
    kind: ClassVar[str] = "copy"
    source: ClassVar[str] = "Graves et al. 2014, arXiv:1410.5401 (repeat copy)"

    letters: int = 10
    digits: int = field(default=3, metadata={"least": 0})

    @property
    def vocabulary(self) -> int:
        """Digits or a stroke, the letters, the question's end and the answer's."""
        return (BASE if self.digits else TALLIED) + self.letters + 2

    @property
    def longest(self) -> int | None:
        return BASE**self.digits - 1 if self.digits else None

    def tokens(self, length: int) -> int:
        return 1 + (self.digits or length) + 1 + length

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        self.check(length)
        first = BASE if self.digits else TALLIED
        letter = first + torch.randint(self.letters, (count, 1), generator=generator)
        said = [int(digit) for digit in f"{length:0{self.digits}}"] if self.digits else [0] * length
        number = torch.tensor(said).expand(count, -1)
        mark = torch.full((count, 1), self.vocabulary - 2)
        answer = torch.cat([letter.expand(-1, length), mark + 1], dim=1)
        return answered(torch.cat([letter, number, mark], dim=1), answer)

    def chance(self, length: int) -> float:
        return 1 / self.letters
