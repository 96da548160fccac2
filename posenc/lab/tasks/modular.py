"""Work out a sum of products."""

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import torch

from posenc.lab.tasks.generated import Generated, asked
from posenc.lab.tasks.task import Batch

PLUS, MINUS, TIMES = range(3)


@dataclass(frozen=True)
class Modular(Generated):
    """1 + 2 * 3 ?: 2, the rest of 7 by the modulus, said by an encoder. A length counts numbers.

    Products come before sums, without brackets. In the source a length counts signs, too.
    """

    name: ClassVar[str] = "modular"
    kind: ClassVar[str] = "arithmetic"
    causal: ClassVar[bool] = False
    source: ClassVar[str] = "Deletang et al. 2023, arXiv:2207.02098 (modular arithmetic, simple)"

    modulus: int = 5

    @property
    def vocabulary(self) -> int:
        """The numbers, three signs, and the mark where the answer is said."""
        return self.modulus + 4

    def tokens(self, length: int) -> int:
        return 2 * length

    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        numbers = torch.randint(self.modulus, (count, length), generator=generator)
        signs = torch.randint(3, (count, length), generator=generator)
        total, term = torch.zeros_like(numbers[:, 0]), numbers[:, 0]
        for number, sign in zip(numbers.unbind(1)[1:], signs.unbind(1)[1:], strict=True):
            times = sign == TIMES
            total = torch.where(times, total, total + term)
            term = torch.where(times, term * number, number * torch.where(sign == MINUS, -1, 1))
            term %= self.modulus
        # A number is read after its sign, and the first one has none.
        question = torch.stack([self.modulus + signs, numbers], dim=2).flatten(1)[:, 1:]
        return asked(question, ((total + term) % self.modulus)[:, None], self.vocabulary - 1)

    def chance(self, length: int) -> float:
        """Of the most frequent result, which is 0, for so is a product with one number that is."""
        rest = range(self.modulus)
        each = 1 / self.modulus
        # How often the terms before have come to a total, and the last one so far is a term.
        often = {(0, term): each for term in rest}
        for _ in range(length - 1):
            now = dict.fromkeys(product(rest, rest), 0.0)
            for (total, term), share in often.items():
                whole = (total + term) % self.modulus
                for number in rest:
                    # A sum and a difference lead to the same: all numbers are as frequent.
                    now[whole, number] += share * each * 2 / 3
                    now[total, term * number % self.modulus] += share * each / 3
            often = now
        results = dict.fromkeys(rest, 0.0)
        for (total, term), share in often.items():
            results[(total + term) % self.modulus] += share
        return max(results.values())
