"""A published claim as data: what is run, what must come out, and where it was said."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from posenc.lab.config import RunConfig
from posenc.lab.measured import Metric

Said = tuple[str, str]
"""In English and in Chinese."""

Size = Literal["small", "large"]


@dataclass(frozen=True)
class Cell:
    """A number of each run of an arm: what is measured, at how many times the train length.

    The train length of an arm that begins with the weights of another is that other's: what was
    tuned on longer texts is compared at the same length.
    """

    arm: str
    metric: Metric = "exact"
    times: float = 1.0


@dataclass(frozen=True)
class Expectation:
    """That a number, or how far it is above another of the same seeds, lies between bounds."""

    of: Cell
    minus: Cell | None = None
    above: float | None = None
    below: float | None = None


@dataclass(frozen=True)
class Claim:
    """One claim; its file in `posenc/claims/registry` has nothing else.

    says        what is claimed, as its source has it
    source      paper or repository, with section, table or figure
    differs     how what is run here differs from there
    agreed      whether the field agrees on it: the registry should confirm these
    arms        the runs by label, without seeds, for a size; `base` is the label of the arm whose
                weights of the same seed a run begins with
    expects     what must come out for the claim to hold, all of it
    seeds       how often each arm is run; ten where outcomes have two modes
    rates       learning rates to choose from, for each arm by its score at the train length alone
    learned     the share of right answers at the train length without which an arm has not learned
                the task, so that nothing is said of it beyond
    """

    name: str
    says: Said
    source: str
    differs: Said
    agreed: bool
    arms: Callable[[Size], Mapping[str, RunConfig]]
    expects: tuple[Expectation, ...]
    seeds: int = 5
    rates: tuple[float, ...] = ()
    learned: float | None = None

    def lengths(self, size: Size) -> dict[str, int]:
        """The train length of each arm, or of the arm whose weights it begins with."""
        arms = self.arms(size)
        return {label: arms.get(arm.base, arm).train_length for label, arm in arms.items()}
