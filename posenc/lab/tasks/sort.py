"""Say it again in order."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated, answered
from posenc.lab.tasks.task import Batch


@dataclass(frozen=True)
class Sort(Generated):
    """3 1 2 > 1 2 3: the keys that were read, the smallest first. A length counts keys.

    A key is one token, and may come again; with distinct=True none does, and a length is at most
    `keys`. In the source keys are written in digits.
    """

    name: ClassVar[str] = "sort"
    kind: ClassVar[str] = "sort"
    source: ClassVar[str] = "Kazemnejad et al. 2023, arXiv:2305.19466 (sorting)"

    keys: int = 10
    distinct: bool = False

    @property
    def vocabulary(self) -> int:
        return self.keys + 1

    @property
    def longest(self) -> int | None:
        return self.keys if self.distinct else None

    def tokens(self, length: int) -> int:
        return 2 * length

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        self.check(length)
        if self.distinct:
            keys = torch.rand(count, self.keys, generator=generator).argsort(1)[:, :length]
        else:
            keys = torch.randint(self.keys, (count, length), generator=generator)
        mark = torch.full((count, 1), self.keys)
        return answered(torch.cat([keys, mark], dim=1), keys.sort(1).values)

    def chance(self, length: int) -> float:
        if self.distinct:
            return 1 / math.comb(self.keys, length)
        return commonest(length, self.keys)


def commonest(length: int, kinds: int) -> float:
    """The share of the most frequent outcome when keys are drawn and their order is forgotten.

    It has as many of one kind as of another: length! / product of count! orders, of kinds^length.
    """
    least, more = divmod(length, kinds)
    orders = math.lgamma(length + 1) - more * math.lgamma(least + 2)
    orders -= (kinds - more) * math.lgamma(least + 1)
    return math.exp(orders - length * math.log(kinds))
