"""What is measured of each head: where it stands in inspect.json, and what a page calls it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posenc.inspection.numbers import mean_of


@dataclass(frozen=True)
class Measure:
    """A number of each head. Shares are parts of 1 and shown as percentages."""

    part: str
    name: str
    title: str
    share: bool = True

    def of(self, layer: Mapping[str, Any]) -> list[float | None] | None:
        """One number for each head of a layer of inspect.json; None where it was not measured."""
        found = layer[self.part]
        return None if found is None else found[self.name]

    def mean(self, layers: Sequence[Mapping[str, Any]]) -> float | None:
        """Over all heads of these layers."""
        return mean_of([x for layer in layers for x in self.of(layer) or []])

    def largest(self, layers: Sequence[Mapping[str, Any]]) -> tuple[float, int, int] | None:
        """The largest number, and its layer and head."""
        every = [
            (x, layer["layer"], head)
            for layer in layers
            for head, x in enumerate(self.of(layer) or [])
            if x is not None
        ]
        return max(every, default=None)


STAYS = (
    Measure("stays", "distance", "Position, told by distance"),
    Measure("stays", "place", "Position, by place alone"),
    Measure("stays", "content", "The text"),
)
SPLIT = (
    Measure("split", "content", "Content"),
    Measure("split", "distance", "Distance"),
    Measure("split", "interaction", "Both together"),
)
FIRST = Measure("attention", "first", "On the first 4 tokens")
ITSELF = Measure("attention", "itself", "On the token itself")
PREVIOUS = Measure("attention", "previous", "On the token before")
NEXT = Measure("attention", "next", "On the token behind")
DISTANCE = Measure("attention", "distance", "Mean distance, tokens", share=False)
BEYOND = Measure(
    "attention", "distance_beyond_first", "Mean distance without the first 4", share=False
)
REACH = Measure("attention", "reach", "Reach of 90%, tokens", share=False)
ENTROPY = Measure("attention", "entropy", "Entropy, nats", share=False)
ATTENTION = (FIRST, ITSELF, PREVIOUS, NEXT, DISTANCE, BEYOND, REACH, ENTROPY)
