"""Say what the largest one is."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated, asked
from posenc.lab.tasks.task import Batch


@dataclass(frozen=True)
class Maximum(Generated):
    """3a 7b 5a ?: b, the class of the item of largest priority. A length counts items.

    An item is one token, and where it stands does not matter. One item alone has the largest
    priority, which may be any but the lowest, and the others have any lower one. In the source
    priorities are numbers, so that the largest are closer together the more items there are.
    """

    name: ClassVar[str] = "maximum"
    kind: ClassVar[str] = "recall"
    causal: ClassVar[bool] = False
    source: ClassVar[str] = "Velickovic et al. 2024, arXiv:2410.01104 (max retrieval)"

    classes: int = 10
    # The lowest is never the largest.
    priorities: int = field(default=32, metadata={"least": 2})

    @property
    def vocabulary(self) -> int:
        """The classes as they are said, the items, and the mark where the answer is said."""
        return self.classes * (1 + self.priorities) + 1

    def tokens(self, length: int) -> int:
        return length + 1

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        classes = torch.randint(self.classes, (count, length), generator=generator)
        largest = torch.randint(1, self.priorities, (count, 1), generator=generator)
        lower = (torch.rand(count, length, generator=generator) * largest).long()
        first = torch.randint(length, (count, 1), generator=generator)
        items = self.classes * (1 + lower.scatter(1, first, largest)) + classes
        return asked(items, classes.take_along_dim(first, 1), self.vocabulary - 1)

    def chance(self, length: int) -> float:
        return 1 / self.classes
