"""Losses of comparisons, less those of one encoding, seed by seed.

posenc compare --seeds 5 --train-bytes 32768 --encodings none,sinusoidal,learned,rotary --out less
python -m tools.experiments.minus sinusoidal less ...

Each interval is single: Student's t over the seeds, not corrected for how many there are. Beside
them stands the loss in training, of the last fortieth of the steps, on whole texts.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tools.experiments.intervals import mean_of, shown
from tools.experiments.trained import runs_of


def by_seed(encoding: dict[str, Any], length: str, protocol: str = "targets") -> dict[str, float]:
    return encoding["loss"][protocol][length]["seeds"]


def rows(report: dict[str, Any], reference: str) -> list[list[str]]:
    """Name, loss at each length, and the difference to the reference at each."""
    found = []
    lengths = [str(length) for length in report["lengths"]]
    for name, encoding in report["encodings"].items():
        cells = [name]
        for length in lengths:
            of, than = (by_seed(e, length) for e in (encoding, report["encodings"][reference]))
            cells.append(shown(mean_of(list(of.values()))))
            if name != reference:
                cells.append(shown(mean_of([of[seed] - than[seed] for seed in than]), "+"))
            else:
                cells.append("-")
        found.append(cells)
    return found


def main() -> None:
    reference, *folders = sys.argv[1:]
    for folder in folders:
        report = json.loads((Path(folder) / "report.json").read_text())
        print(f"\n{report['command']}\n")
        heads = [[f"at {length}", f"minus {reference}"] for length in report["lengths"]]
        head = ["", *(cell for pair in heads for cell in pair), "in training"]
        print("|", " | ".join(head), "|")
        print("|---" * len(head) + "|")
        training = in_training(Path(folder))
        for cells in rows(report, reference):
            print("|", " | ".join((*cells, shown(mean_of(training[cells[0]])))), "|")


def in_training(folder: Path) -> dict[str, list[float]]:
    """The last loss that each run's training told of, by encoding."""
    return {
        name: [[row["loss"] for row in run.rows if row["kind"] == "train"][-1] for run in runs]
        for name, runs in runs_of(folder).items()
    }


if __name__ == "__main__":
    main()
