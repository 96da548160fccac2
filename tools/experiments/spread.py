"""Why RoPE's loss at twice the training length differs so much from paper to paper.

python -m tools.experiments.spread posenc-spread        runs, an hour on one core, and the table
python -m tools.experiments.spread                      what the table beside this file comes to

Head size, base, training length and width are varied together, each run is tested in both ways:
all 54 combinations, and nine of them with a second seed, which tells how much of it is chance.
PREDICTED were chosen after those had been looked at.
"""

import csv
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from statistics import fmean

from scipy.stats import f, t

from posenc.lab.complete import complete
from posenc.lab.config import RunConfig
from posenc.lab.folder import read_run
from posenc.lab.model import settings_of
from posenc.lab.progress import display
from posenc.lab.text import standard_library

TABLE = Path(__file__).with_suffix(".csv")
LEVELS = {
    "head": (8, 16, 32),
    "base": (100, 10_000, 1_000_000),
    "length": (32, 64, 128),
    "dim": (32, 64),
}
# Which of them have no pair between a quarter and a whole turn, the last of each base has one.
PREDICTED = [
    {"head": head, "base": base, "length": length, "dim": dim}
    for head, base in ((16, 10**6), (32, 10**12))
    for length, dim in ((42, 32), (42, 64), (64, 32))
    if (base, length) != (10**6, 64)
]
STEPS = 600
# Bytes of text in a step, so that every model reads as much.
TOKENS = 1024

Cell = dict[str, int]
Row = dict[str, float]


def cells() -> list[tuple[int, Cell]]:
    """The seed and the levels of each run."""
    whole = [dict(zip(LEVELS, levels, strict=True)) for levels in product(*LEVELS.values())]
    # A Latin square: each head with each base, and each length three times.
    again = [
        cell
        for cell in whole
        for head, base, length, dim in [[LEVELS[name].index(cell[name]) for name in LEVELS]]
        if (head + base + length) % 3 == 0 and (head + base) % 2 == dim
    ]
    return [(0, cell) for cell in whole] + [(1, cell) for cell in again]


def config_of(seed: int, cell: Cell) -> RunConfig:
    config = RunConfig(
        f"rotary(base={cell['base']})",
        seed=seed,
        corpus=standard_library().summary["sha256"],
        train_length=cell["length"],
        test_lengths=(cell["length"], 2 * cell["length"]),
        dim=cell["dim"],
        heads=cell["dim"] // cell["head"],
        batch=TOKENS // cell["length"],
        steps=STEPS,
        learning_rate=0.4 / cell["dim"],
    )
    return replace(config, settings=settings_of(config))


def between(cell: Cell) -> int:
    """How many pairs make more than a quarter of a turn in training, and less than a whole one."""
    pairs = cell["head"] // 2
    turned = [cell["length"] * cell["base"] ** (-i / pairs) for i in range(pairs)]
    return sum(math.tau / 4 < angle < math.tau for angle in turned)


def measured(out: Path) -> Iterator[Row]:
    """A row for each run that is done: its levels, its loss, and how it rises at twice the length.

    In nats per byte; `rise` of fixed targets, `rise_windows` of whole windows.
    """
    for seed, cell in [*cells(), *((0, cell) for cell in PREDICTED)]:
        run = read_run(out / "runs" / config_of(seed, cell).name)
        if run is None or run.state != "done":
            continue
        loss = {
            (row["protocol"], row["length"] // cell["length"]): row["loss"]
            for row in run.rows
            if row["kind"] == "loss"
        }
        rises = {name: loss[name, 2] - loss[name, 1] for name in ("targets", "windows")}
        yield {
            **cell,
            "seed": seed,
            "loss": round(loss["targets", 1], 4),
            "rise": round(rises["targets"], 4),
            "rise_windows": round(rises["windows"], 4),
        }


def table() -> list[Row]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]


def whole(rows: Sequence[Row]) -> list[Row]:
    """The 54 combinations, each once."""
    return [row for row in rows if row["seed"] == 0 and not predicted(row)]


def predicted(row: Row) -> bool:
    return any(all(row[name] == level for name, level in cell.items()) for cell in PREDICTED)


def noise(rows: Sequence[Row], measure: str) -> tuple[float, int]:
    """Variance between two seeds of one combination, and its degrees of freedom."""
    first = {tuple(row[name] for name in LEVELS): row[measure] for row in whole(rows)}
    again = [row for row in rows if row["seed"] == 1]
    apart = [row[measure] - first[tuple(row[name] for name in LEVELS)] for row in again]
    return math.fsum(one**2 for one in apart) / 2 / len(apart), len(apart)


def effects(
    rows: Sequence[Row], measure: str, largest: int = 3
) -> dict[tuple[str, ...], tuple[float, int]]:
    """Sums of squares and degrees of freedom of each factor and each set of so many factors.

    Every combination is there once, so what a set explains does not depend on the others.
    """
    rows = whole(rows)
    total = fmean(row[measure] for row in rows)
    found: dict[tuple[str, ...], tuple[float, int]] = {}
    for size in range(1, largest + 1):
        for names in combinations(LEVELS, size):
            explained = sum(
                (fmean(r[measure] for r in rows if _same(r, row, names)) - total) ** 2
                for row in rows
            )
            within = [one for one in found if {*one} < {*names}]
            squares = explained - math.fsum(found[one][0] for one in within)
            found[names] = squares, math.prod(len(LEVELS[name]) - 1 for name in names)
    return found


def main() -> None:
    if len(sys.argv) > 1:
        out = Path(sys.argv[1])
        out.mkdir(exist_ok=True)
        todo = [config_of(seed, cell) for seed, cell in cells()]
        todo += [config_of(0, cell) for cell in PREDICTED]
        with display(sys.stderr, "en") as shown:
            stopped = complete(out, todo, standard_library(), 1, shown)
        if stopped is not None:
            raise stopped
        rows = list(measured(out))
        with TABLE.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    rows = table()
    for measure in ("rise", "rise_windows"):
        _print_effects(rows, measure)
    print("\nrise of fixed targets (of whole windows); in bold without a pair between\n")
    print("\n".join(grid(rows)))


def grid(rows: Sequence[Row]) -> Iterator[str]:
    """Mean rises at each head size and base (a line) and length (a column), of the 54."""
    yield "| | | " + " | ".join(map(str, LEVELS["length"])) + " |"
    for head, base in product(LEVELS["head"], LEVELS["base"]):
        shown = []
        for length in LEVELS["length"]:
            cell = {"head": head, "base": base, "length": length}
            own = [row for row in whole(rows) if _same(row, cell, list(cell))]
            rise, windows = (fmean(row[m] for row in own) for m in ("rise", "rise_windows"))
            text = f"{rise:.2f} ({windows:.2f})".replace("-0.00", "0.00")
            shown.append(text if between(cell) else f"**{text}**")
        yield f"| {head} | {base} | " + " | ".join(shown) + " |"


def _print_effects(rows: Sequence[Row], measure: str) -> None:
    chance, freedom = noise(rows, measure)
    found = effects(rows, measure)
    total = math.fsum(
        (r[measure] - fmean(x[measure] for x in whole(rows))) ** 2 for r in whole(rows)
    )
    print(f"{measure}: deviation between seeds {math.sqrt(chance):.3f}")
    print("| of | share of variance | F | p |\n|---|---|---|---|")
    for names, (squares, df) in found.items():
        ratio = squares / df / chance
        p = float(f.sf(ratio, df, freedom))
        print(f"| {' x '.join(names)} | {squares / total:.2f} | {ratio:.1f} | {p:.2g} |")
    # Of all runs at a level, as far as chance goes.
    for name, levels in LEVELS.items():
        for level in levels:
            own = [row[measure] for row in whole(rows) if row[name] == level]
            half = float(t.ppf(0.975, freedom)) * math.sqrt(chance / len(own))
            print(f"{name} {level}: {fmean(own):.2f} +- {half:.2f}")


def _same(row: Mapping[str, float], other: Mapping[str, float], names: Sequence[str]) -> bool:
    return all(row[name] == other[name] for name in names)


if __name__ == "__main__":
    main()
