"""What a model is to learn: batches to train on, and rows that say how well it does."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn

from posenc.errors import SettingError, given, one_of, whole
from posenc.lab.config import RunConfig

Row = dict[str, Any]
Tell = Callable[[float], None]


class Batch(NamedTuple):
    """Examples of one length: at each scored place a model is to say the target.

    `ids`, where a task has them, are the tokens' positions.
    """

    tokens: Int64[Tensor, "b t"]
    targets: Int64[Tensor, "b t"]
    scored: Bool[Tensor, "b t"]
    ids: Int64[Tensor, "b t"] | None = None

    def map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """The same of other tensors."""
        ids = None if self.ids is None else change(self.ids)
        return Batch(change(self.tokens), change(self.targets), change(self.scored), ids)


@dataclass(frozen=True)
class Task(ABC):
    """One thing to learn.

    name          what it is called in a comparison
    kind          what it asks of a model, in a word that tasks share; evidence is looked up by it
    own_examples  whether each seed is tested on examples of its own, or all on the same
    causal        whether a decoder learns it, or an encoder
    shortest      the smallest length that there is

    Raises SettingError for whole numbers below 1, or below the `least` of a field's metadata, and
    for flags and texts that are none.
    """

    name: ClassVar[str]
    kind: ClassVar[str] = ""
    own_examples: ClassVar[bool] = False
    causal: ClassVar[bool] = True
    shortest: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            told = {field.name: getattr(self, field.name)}
            if field.type in (int, int | None):
                whole(self.name, field.metadata.get("least", 1), **given(**told))
            elif field.type is bool:
                one_of(self.name, (False, True), **told)
            elif field.type is str and not isinstance(told[field.name], str):
                value = told[field.name]
                raise SettingError(
                    f"{self.name}({field.name}={value!r}): {field.name} is a text, in quotes"
                )

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """How many different tokens there are."""

    def tokens(self, length: int) -> int:
        """How many tokens a model reads of an example of a length."""
        return length

    def extent(self, length: int) -> int:
        """How long a model is for a length: its tokens, and one more than its largest position."""
        return self.tokens(length)

    @property
    def spec(self) -> str:
        """Its name, and the settings that are not as they are by themselves."""
        own = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if field.repr and getattr(self, field.name) != field.default
        ]
        return f"{self.name}({', '.join(own)})" if own else self.name

    @abstractmethod
    def batch(self, config: RunConfig, generator: torch.Generator) -> Batch:
        """What one step trains on; it depends on the configuration and the generator alone."""

    @abstractmethod
    def evaluate(self, model: nn.Module, config: RunConfig, tell: Tell) -> Iterator[Row]:
        """Rows that say how well a model does at each test length; `tell` hears the share done.

        A length past the train length at which the model raises gives `missing` rows.
        """

    def solved(self, model: nn.Module, config: RunConfig) -> float | None:
        """The share of whole answers that are right at lengths of training; None: no such share."""
        return None


def missing(length: int, error: Exception) -> Row:
    """The row of a length that an encoding cannot serve."""
    return {"kind": "missing", "length": length, "reason": f"{type(error).__name__}: {error}"}
