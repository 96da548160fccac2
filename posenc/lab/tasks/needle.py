"""Find one letter among many."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc.errors import SettingError
from posenc.lab.tasks.generated import Generated, answered
from posenc.lab.tasks.task import Batch


@dataclass(frozen=True)
class Needle(Generated):
    """a c b # d b a # > d: the letter after the first #, which the second one asks for.

    A length counts the other letters. `depth` is the share of them that come before the first #,
    from 0 to 1; None draws how many. The letter is one like the others, so that nothing but its
    place tells it from them. In the source it is a number of several digits in English sentences.
    """

    name: ClassVar[str] = "needle"
    kind: ClassVar[str] = "recall"
    source: ClassVar[str] = "Mohtashami and Jaggi 2023, arXiv:2305.16300 (passkey retrieval)"

    letters: int = 16
    depth: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth is not None and not 0 <= self.depth <= 1:
            raise SettingError(
                f"needle(depth={self.depth}): depth is a share from 0 to 1, or None, which draws it"
            )

    @property
    def vocabulary(self) -> int:
        return self.letters + 1

    def tokens(self, length: int) -> int:
        return length + 3

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        text = torch.randint(self.letters, (count, length + 3), generator=generator)
        if self.depth is None:
            before = torch.randint(length + 1, (count, 1), generator=generator)
        else:
            before = torch.full((count, 1), round(self.depth * length))
        text.scatter_(1, before, self.letters)
        text[:, -1] = self.letters
        return answered(text, text.take_along_dim(before + 1, 1))

    def chance(self, length: int) -> float:
        return 1 / self.letters
