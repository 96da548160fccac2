"""Tell the same letters in the same order from another order."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated, asked
from posenc.lab.tasks.task import Batch


@dataclass(frozen=True)
class Permutation(Generated):
    """a c b / b c a ?: 1 where two letters have changed places, 0 where none have.

    Both halves have the same letters, so that an encoder without positions cannot tell. A length
    counts letters of a half; the two, which differ, stand anywhere. In the source a sentence is
    alone, its words are exchanged with their neighbours, and the language tells.
    """

    name: ClassVar[str] = "permutation"
    kind: ClassVar[str] = "order"
    causal: ClassVar[bool] = False
    shortest: ClassVar[int] = 2
    source: ClassVar[str] = "after Conneau et al. 2018, arXiv:1805.01070 (bigram shift)"

    letters: int = field(default=10, metadata={"least": 2})

    @property
    def vocabulary(self) -> int:
        """Letters, the mark between the halves, and the one where the answer is said."""
        return self.letters + 2

    def tokens(self, length: int) -> int:
        return 2 * length + 2

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        text = torch.randint(self.letters, (count, length), generator=generator)
        two = torch.rand(count, length, generator=generator).argsort(1)[:, :2]
        # The second letter is made another than the first.
        apart = torch.randint(1, self.letters, (count,), generator=generator)
        letters = text.take_along_dim(two, 1)
        letters[:, 1] = (letters[:, 0] + apart) % self.letters
        text = text.scatter(1, two, letters)
        changed = torch.randint(2, (count, 1), generator=generator)
        other = torch.where(changed == 1, text.scatter(1, two, letters.flip(1)), text)
        between = torch.full((count, 1), self.letters)
        return asked(torch.cat([text, between, other], dim=1), changed, self.letters + 1)

    def chance(self, length: int) -> float:
        return 0.5
