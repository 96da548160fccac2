"""Say the letter that is missing of a string written twice."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated, asked
from posenc.lab.tasks.task import Batch

GAP = 2
MARK = 3


@dataclass(frozen=True)
class MissingDuplicate(Generated):
    """0 1 1 0 _ 1 ?: 1, which stands there in the other half. A length counts bits of one half.

    The gap is anywhere in either half, and what it hides is exactly a length away. In the source a
    length counts both halves, and an odd one has a token more.
    """

    name: ClassVar[str] = "missing_duplicate"
    kind: ClassVar[str] = "copy"
    causal: ClassVar[bool] = False
    source: ClassVar[str] = "Deletang et al. 2023, arXiv:2207.02098 (missing duplicate)"

    @property
    def vocabulary(self) -> int:
        return MARK + 1

    def tokens(self, length: int) -> int:
        return 2 * length + 1

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        twice = torch.randint(2, (count, length), generator=generator).repeat(1, 2)
        gap = torch.randint(2 * length, (count, 1), generator=generator)
        return asked(twice.scatter(1, gap, GAP), twice.take_along_dim(gap, 1), MARK)

    def chance(self, length: int) -> float:
        return 0.5
