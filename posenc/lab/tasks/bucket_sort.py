"""Sort letters of a small alphabet, all at once."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated, asked
from posenc.lab.tasks.sort import commonest
from posenc.lab.tasks.task import Batch


@dataclass(frozen=True)
class BucketSort(Generated):
    """2 0 2 1 ? ? ? ?: the keys in order, said by an encoder. A length counts keys.

    Nothing but its position tells one place of the answer from another.
    """

    name: ClassVar[str] = "bucket_sort"
    kind: ClassVar[str] = "sort"
    causal: ClassVar[bool] = False
    source: ClassVar[str] = "Deletang et al. 2023, arXiv:2207.02098 (bucket sort)"

    keys: int = 5

    @property
    def vocabulary(self) -> int:
        return self.keys + 1

    def tokens(self, length: int) -> int:
        return 2 * length

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        keys = torch.randint(self.keys, (count, length), generator=generator)
        return asked(keys, keys.sort(1).values, self.keys)

    def chance(self, length: int) -> float:
        return commonest(length, self.keys)
