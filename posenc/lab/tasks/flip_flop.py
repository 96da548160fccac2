"""Remember the last bit that was written."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from posenc.errors import SettingError
from posenc.lab.tasks.generated import Generated
from posenc.lab.tasks.task import Batch

ZERO, ONE, WRITE, IGNORE, READ = range(5)


@dataclass(frozen=True)
class FlipFlop(Generated):
    """w 1 i 0 r 1 i 0 r 1: a read gives the bit of the last write, and every read is scored.

    A length counts instructions, each with a bit: the first one writes, the last one reads. Of
    those between, the share `ignored` is to be ignored, and the others are as often reads as
    writes. The more is ignored, the farther a read is from its write.
    """

    name: ClassVar[str] = "flip_flop"
    kind: ClassVar[str] = "state"
    shortest: ClassVar[int] = 2
    source: ClassVar[str] = "Liu et al. 2023, arXiv:2306.00946 (flip-flop language modeling)"

    ignored: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.ignored <= 1:
            raise SettingError(f"flip_flop(ignored={self.ignored}): it is a share, from 0 to 1")

    @property
    def vocabulary(self) -> int:
        return READ + 1

    def tokens(self, length: int) -> int:
        return 2 * length - 1

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        drawn = torch.rand(count, length, generator=generator)
        told = torch.where(drawn < (1 - self.ignored) / 2, READ, WRITE)
        told[drawn >= 1 - self.ignored] = IGNORE
        told[:, 0], told[:, -1] = WRITE, READ
        bits = torch.randint(2, (count, length), generator=generator)
        place = torch.arange(length)
        written = torch.where(told == WRITE, place, 0).cummax(1).values
        bits = torch.where(told == READ, bits.take_along_dim(written, 1), bits)
        whole = torch.stack([told, bits], dim=2).flatten(1)
        return Batch(whole[:, :-1], whole[:, 1:], whole[:, :-1] == READ)

    def chance(self, length: int) -> float:
        """Of the same bit at every read."""
        other = (1 - self.ignored) / 2
        # How often the bit is stored, or the other one, where all reads so far were guessed.
        right = wrong = 0.5
        for _ in range(length - 2):
            written = other * (right + wrong) / 2
            right, wrong = right * (1 - other) + written, wrong * self.ignored + written
        return right
