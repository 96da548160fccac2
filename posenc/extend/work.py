"""All that cells are measured with."""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc.extend.cells import Cell, Lengths, key
from posenc.extend.material import Material
from posenc.extend.measures import MEASURES
from posenc.extend.peak import peak_memory
from posenc.extend.subject import Subject
from posenc.extend.tune.tuner import Tuner


@dataclass(frozen=True)
class Work:
    """A model, what it reads, the file where rows are kept, and where the model's own files are."""

    subject: Subject
    material: Material
    lengths: Lengths
    seed: int
    file: Path
    tuner: Tuner | None = None
    source: Path = Path()

    @property
    def target(self) -> int:
        """Methods are set once, to reach the farthest length."""
        return max(self.lengths.to)

    def key(self, cell: Cell) -> str:
        """What the cell is kept by: the hash of it and of all that its numbers depend on."""
        layers = self.subject.layers(cell.method, self.target, cell.length)
        depends: dict[str, Any] = {
            "model": self.subject.identity,
            "layers": repr(layers),
            "text": self.material.digest(None if cell.hides else cell.index),
        }
        if cell.steps and self.tuner is not None:
            depends["tuned"] = self.tuner.key(cell.method)
        if cell.hides:
            depends["seed"] = self.seed
        else:
            depends |= {"edges": self.lengths.edges, "scored": self.lengths.targets}
        return key(cell, depends)

    def measure(self, cell: Cell) -> dict[str, Any]:
        """The cell's row: its numbers, seconds, and memory (1e6 bytes) beyond what was held."""
        self.subject.attach(cell.method, self.target, cell.length)
        trained = self.tuner.put(cell.method) if cell.steps and self.tuner else nullcontext()
        with trained, peak_memory() as peak:
            began = time.perf_counter()
            result = MEASURES[cell.measure](
                self.subject.model, self.material, self.lengths, self.seed, cell
            )
            seconds = round(time.perf_counter() - began, 3)
        return {"kind": "cell", "key": self.key(cell), "result": result} | {
            "seconds": seconds,
            "peak_mb": peak.mb,
        }
