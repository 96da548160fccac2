"""Tasks whose examples are made by a rule, as many as are asked for, with one right answer each."""

import hashlib
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float64, Int64
from torch import Tensor, nn

from posenc.errors import SettingError
from posenc.lab.config import RunConfig
from posenc.lab.evaluate import at_once
from posenc.lab.placing import placed
from posenc.lab.tasks.task import Batch, Row, Task, Tell, missing

# Examples that say whether a task is solved in training.
CHECKED = 256


@dataclass(frozen=True)
class Generated(Task):
    """An answer is right when every scored place is: what greedy decoding would say.

    A model reads the right answer up to each place. Where all places before it were said rightly,
    which they are in a right answer, greedy decoding reads the same.

    source      where the task comes from
    """

    source: ClassVar[str]

    @property
    def longest(self) -> int | None:
        """The largest length that there is; None: any."""
        return None

    def check(self, length: int) -> None:
        """Raise SettingError for a length of which there are no examples."""
        if length < self.shortest or (self.longest is not None and length > self.longest):
            end = "" if self.longest is None else f" to {self.longest}"
            raise SettingError(
                f"task {self.spec} has no examples of length {length}: its lengths are from "
                f"{self.shortest}{end}"
            )

    def extent(self, length: int) -> int:
        """As of every task; raises SettingError as `check` does.

        Models are built with it, so that no run fails at a length after it was trained.
        """
        self.check(length)
        return super().extent(length)

    @abstractmethod
    def sample(self, length: int, count: int, generator: torch.Generator) -> Batch:
        """`count` examples of a length, which the generator alone decides."""

    @abstractmethod
    def chance(self, length: int) -> float:
        """The share of right answers of the best guess that does not read the question."""

    def batch(self, config: RunConfig, generator: torch.Generator) -> Batch:
        """Of one length, so that nothing is padded; every length up to the train length is met."""
        span = self.shortest, config.train_length + 1
        length = int(torch.randint(*span, (), generator=generator))
        return self.sample(length, config.batch, generator)

    def evaluate(self, model: nn.Module, config: RunConfig, tell: Tell) -> Iterator[Row]:
        """One row `accuracy` a length, from examples that are the same for every model.

        exact       how many whole answers are right, of `examples`
        token       the share of scored places that are right
        chance      the share of whole answers that a guess gets
        loss        mean over the scored places, in nats; None where it is not finite
        """
        total = sum(map(self.tokens, config.test_lengths))
        done = 0
        for length in config.test_lengths:
            batch = self.sample(length, config.spans, self._generator("test", length))
            try:
                right, losses = answers(model, config, batch, self.causal, length)
            except Exception as error:
                if length <= config.train_length:
                    raise
                yield missing(length, error)
            else:
                loss = losses.mean().item() if losses.isfinite().all() else None
                yield {
                    "kind": "accuracy",
                    "length": length,
                    "examples": len(right),
                    "exact": int(right.all(1).sum()),
                    "token": right[batch.scored].double().mean().item(),
                    "chance": self.chance(length),
                    "loss": loss,
                }
            done += self.tokens(length)
            tell(done / total)

    def solved(self, model: nn.Module, config: RunConfig) -> float:
        """Of examples of the train length, which no test uses."""
        generator = self._generator("solved", config.train_length)
        batch = self.sample(config.train_length, CHECKED, generator)
        right, _ = answers(model, config, batch, self.causal, 0)
        return right.all(1).double().mean().item()

    def _generator(self, use: str, length: int) -> torch.Generator:
        digest = hashlib.sha256(f"{self.spec}/{use}/{length}".encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:4]))


def answers(
    model: nn.Module, config: RunConfig, batch: Batch, causal: bool, seed: int
) -> tuple[Bool[Tensor, "b t"], Float64[Tensor, "scored"]]:
    """Where a model says the target, which it does where nothing is scored, and the losses.

    Random positions are drawn from `seed`.
    """
    examples, tokens = batch.tokens.shape
    device = next(model.parameters()).device
    size = at_once(tokens, config.heads, device)
    torch.manual_seed(seed)
    right, losses = [], []
    for first in range(0, examples, size):
        chosen = slice(first, first + size)
        part = batch.map(lambda x, chosen=chosen: x[chosen].to(device))
        logits = model(part.tokens, placed(config, part, causal)).float()
        right.append(((logits.argmax(-1) == part.targets) | ~part.scored).cpu())
        found = F.cross_entropy(logits[part.scored], part.targets[part.scored], reduction="none")
        losses.append(found.cpu().double())
    return torch.cat(right), torch.cat(losses)


def answered(question: Int64[Tensor, "b q"], answer: Int64[Tensor, "b a"]) -> Batch:
    """For a decoder: it reads the question and the answer, and is scored on the answer."""
    whole = torch.cat([question, answer], dim=1)
    tokens, targets = whole[:, :-1], whole[:, 1:]
    scored = torch.arange(tokens.shape[1]) >= question.shape[1] - 1
    return Batch(tokens, targets, scored.expand_as(tokens))


def asked(question: Int64[Tensor, "b q"], answer: Int64[Tensor, "b a"], mark: int) -> Batch:
    """For an encoder: a mark for each place of the answer follows the question, and is scored.

    So Ruoss et al. 2023 (arXiv:2305.16843) read what a model says.
    """
    tokens = torch.cat([question, torch.full_like(answer, mark)], dim=1)
    targets = torch.cat([question, answer], dim=1)
    scored = torch.arange(tokens.shape[1]) >= question.shape[1]
    return Batch(tokens, targets, scored.expand_as(tokens))
