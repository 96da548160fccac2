"""What is measured one at a time, kept on the disk, and never measured twice."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from posenc.extend.options import PROTOCOL
from posenc.extend.words import TEXTS
from posenc.words import Saying, Words

# Tokens that are scored with growing context, and how many times as much each context holds.
TARGETS = 256
GROWTH = 4
SHORT = 1024
DEPTHS = (0.1, 0.5, 0.9)
# The measure that reads the model as it is, whatever the methods are.
OWN = "none"


@dataclass(frozen=True)
class Cell:
    """One number or a few: a method, a measure, how many tokens are read, and which of its repeats.

    index is the span of a loss and the seed of a passkey; depth is where that is hidden, None for
    a control without one. steps is how many the method was trained on for, 0 for none.
    """

    method: str
    measure: str
    length: int
    index: int
    depth: float | None = None
    steps: int = 0

    @property
    def hides(self) -> bool:
        """Whether it is about passkeys."""
        return self.measure in ("passkey", "control")

    @property
    def row(self) -> str:
        """What the method is called in the report."""
        return row_name(self.method, self.steps)

    @property
    def said(self) -> Saying:
        row = Saying("tuned", {"method": self.method, "steps": self.steps})
        kind = "hidden" if self.depth is not None else "control" if self.hides else "span"
        values = {"row": row if self.steps else self.method, "measure": self.measure}
        values |= {"length": self.length, "index": self.index, "depth": self.depth}
        return Saying(f"cell_{kind}", values)

    def __str__(self) -> str:
        return Words("en", TEXTS).of(self.said)


@dataclass(frozen=True)
class Lengths:
    """The lengths of all cells, which follow from the trained one and those asked for."""

    trained: int
    to: tuple[int, ...]

    @property
    def targets(self) -> int:
        """How many tokens are scored with growing context."""
        return max(1, min(TARGETS, self.trained // 16))

    @property
    def contexts(self) -> tuple[int, ...]:
        """How many tokens are read to score them; those of `to` are whole windows anyway."""
        shorter = [self.trained]
        while shorter[-1] // GROWTH >= 2 * self.targets:
            shorter.append(shorter[-1] // GROWTH)
        return tuple(sorted({*shorter} - {*self.to}))

    @property
    def short(self) -> int:
        return max(2, min(SHORT, self.trained // 2))

    @property
    def passkeys(self) -> tuple[int, ...]:
        """One that the model was trained for, then those asked for."""
        return (self.trained // 2, *self.to)

    @property
    def edges(self) -> tuple[int, ...]:
        """Bins of position in the longest window, about 16 within the trained length and beyond."""
        longest = max(self.to)
        near, far = max(1, self.trained // 16), max(1, (longest - self.trained) // 16)
        return (*range(0, self.trained, near), *range(self.trained, longest, far), longest)


def row_name(method: str, steps: int) -> str:
    return Words("en", TEXTS)("tuned", method=method, steps=steps) if steps else method


def plan(
    methods: tuple[str, ...],
    measures: tuple[str, ...],
    lengths: Lengths,
    spans: int,
    needles: int,
    tuned: Mapping[str, int] | None = None,
) -> list[Cell]:
    """All cells, repeat by repeat, so that an early end has every method once.

    tuned names those methods that are measured trained on too, each with its steps.
    """
    steps = tuned or {}
    variants = [
        (method, trained_on)
        for method in methods
        for trained_on in dict.fromkeys((0, steps.get(method, 0)))
    ]
    cells = []
    for index in range(max(spans, needles)):
        if index < spans:
            if "sliding" in measures:
                cells += [Cell(OWN, "sliding", n, index) for n in lengths.to]
            for method, on in variants:
                if "short" in measures:
                    cells.append(Cell(method, "short", lengths.short, index, steps=on))
                if "targets" in measures:
                    cells += [Cell(method, "targets", n, index, steps=on) for n in lengths.contexts]
                if "windows" in measures or "targets" in measures:
                    cells += [Cell(method, "windows", n, index, steps=on) for n in lengths.to]
        if index < needles and "passkey" in measures:
            for method, on in variants:
                cells.append(Cell(method, "control", lengths.passkeys[0], index, steps=on))
                cells += [
                    Cell(method, "passkey", n, index, depth, on)
                    for n in lengths.passkeys
                    for depth in DEPTHS
                ]
    return cells


def key(cell: Cell, depends: dict[str, Any]) -> str:
    """The first 16 hex digits of the sha256 of a cell and of all that its numbers depend on.

    `depends` says what the method built instead of its name, so that methods that build the same
    for a length share their cells, and of training all that shaped the weights.
    """
    told = ("method", "steps")
    fields = {name: value for name, value in asdict(cell).items() if name not in told}
    text = json.dumps({"protocol": PROTOCOL, **fields, **depends}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
