"""Add two numbers."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Int64
from torch import Tensor

from posenc.errors import SettingError
from posenc.lab.tasks.generated import Generated, answered
from posenc.lab.tasks.task import Batch


@dataclass(frozen=True)
class Addition(Generated):
    """7 2 + 5 8 = 2 1 1: 27 + 85 = 112, the ones first. A length counts digits of each operand.

    Operands have zeros at their end where they are shorter, and an answer has one digit more. In
    the source the answer alone begins with the ones, and nothing is filled up.

    hints="index" puts a letter before every digit, b 7 c 2 + b 5 c 8 = b 2 c 1 d 1: ones of both
    operands and of the answer have the same, and so on. They are a run of the alphabet that begins
    anywhere, and are scored, too (Zhou et al. 2023, arXiv:2310.16028).

    coupled=True gives tokens positions of their own: digits that are worth the same share one, and
    signs are one before the ones (Cho et al. 2024, arXiv:2405.20671, mirrored, for there operands
    are written with the ones last, and have as many digits as they need). Positions that are drawn
    take their place.

    Letters, or positions, are `limit`. Where they begin is drawn, in tests as well, so that those
    of long sums are trained by short ones. Digits are those of `base`: the sources have ten.
    """

    name: ClassVar[str] = "addition"
    kind: ClassVar[str] = "arithmetic"
    source: ClassVar[str] = "Lee et al. 2023, arXiv:2307.03381 (reverse)"

    hints: str | None = None
    coupled: bool = False
    limit: int = 128
    base: int = field(default=10, metadata={"least": 2})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hints not in (None, "index"):
            raise SettingError(f"addition(hints={self.hints!r}): hints are 'index' or None")
        if self.hints and self.coupled:
            raise SettingError(
                f"addition(hints={self.hints!r}, coupled=True): both say which digits belong "
                "together; choose one"
            )

    @property
    def vocabulary(self) -> int:
        return self.base + 2 + (self.limit if self.hints else 0)

    @property
    def longest(self) -> int | None:
        """What fits in a run of letters, or in one of positions with that of the signs."""
        if self.coupled:
            return self.limit - 2
        return self.limit - 1 if self.hints else None

    def tokens(self, length: int) -> int:
        each = 2 if self.hints else 1
        return each * (3 * length + 1) + 1

    def extent(self, length: int) -> int:
        tokens = super().extent(length)
        return max(tokens, self.limit) if self.coupled else tokens

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        self.check(length)
        digits = torch.randint(self.base, (2, count, length), generator=generator)
        total = _sum(digits[0], digits[1], self.base)
        worth = torch.arange(length + 1).expand(count, -1)
        if self.hints:
            begin = torch.randint(self.limit - length, (count, 1), generator=generator)
            letters = self.base + 2 + begin + worth
            first, second = (_mixed(letters[:, :length], one) for one in digits)
            total = _mixed(letters, total)
        else:
            first, second = digits
        plus, equals = (torch.full((count, 1), self.base + sign) for sign in (0, 1))
        batch = answered(torch.cat([first, plus, second, equals], dim=1), total)
        if not self.coupled:
            return batch
        sign = torch.randint(self.limit - length - 1, (count, 1), generator=generator)
        places = sign + 1 + worth
        operand = places[:, :length]
        # The answer's last digit is said, but not read.
        return batch._replace(ids=torch.cat([operand, sign, operand, sign, operand], dim=1))

    def chance(self, length: int) -> float:
        """Of the most frequent sum, all nines, and of one letter to begin with where there are."""
        return self.base**-length / (self.limit - length if self.hints else 1)


def _sum(
    first: Int64[Tensor, "b n"], second: Int64[Tensor, "b n"], base: int
) -> Int64[Tensor, "b m"]:
    carry = torch.zeros_like(first[:, 0])
    said = []
    for one, other in zip(first.unbind(1), second.unbind(1), strict=True):
        both = one + other + carry
        said.append(both % base)
        carry = both // base
    return torch.stack([*said, carry], dim=1)


def _mixed(letters: Int64[Tensor, "b n"], digits: Int64[Tensor, "b n"]) -> Int64[Tensor, "b m"]:
    return torch.stack([letters, digits], dim=2).flatten(1)
