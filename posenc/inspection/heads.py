"""What is measured of each head: where it stands in inspect.json, and how it is shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posenc.inspection.numbers import mean_of


@dataclass(frozen=True)
class Measure:
    """A number of each head. Shares are parts of 1 and shown as percentages."""

    part: str
    name: str
    share: bool = True

    @property
    def key(self) -> str:
        """Of what it is called."""
        return f"{self.part}_{self.name}"

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


STAYS = tuple(Measure("stays", name) for name in ("distance", "place", "content"))
SPLIT = tuple(Measure("split", name) for name in ("content", "distance", "interaction"))
FIRST = Measure("attention", "first")
ITSELF = Measure("attention", "itself")
PREVIOUS = Measure("attention", "previous")
NEXT = Measure("attention", "next")
DISTANCE = Measure("attention", "distance", share=False)
BEYOND = Measure("attention", "distance_beyond_first", share=False)
REACH = Measure("attention", "reach", share=False)
ENTROPY = Measure("attention", "entropy", share=False)
ATTENTION = (FIRST, ITSELF, PREVIOUS, NEXT, DISTANCE, BEYOND, REACH, ENTROPY)
