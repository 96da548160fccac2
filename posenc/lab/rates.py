"""A learning rate for each arm, from a grid, by the train length alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from posenc.lab.config import RunConfig
from posenc.lab.folder import read_run
from posenc.lab.measured import number, row_of

# Seeds of runs that look for a learning rate; nothing else reads them.
RATE_SEED = 1000


def looking(rates: Sequence[float], config: RunConfig) -> list[RunConfig]:
    """Runs of one arm at each learning rate, tested at the train length alone.

    What begins with another's weights keeps the rate that it has.
    """
    if len(rates) < 2 or config.base:
        return []
    tested = replace(config, seed=RATE_SEED, test_lengths=(config.train_length,))
    return [replace(tested, learning_rate=rate) for rate in rates]


def with_rate(rates: Sequence[float], config: RunConfig, out: Path) -> RunConfig | None:
    """The arm at the rate that came out best; None while that is not known.

    Best is the lowest loss at the train length. A rate at which training failed is none.
    """
    found: dict[float, float] = {}
    tried = looking(rates, config)
    for one in tried:
        run = read_run(out / "runs" / one.name)
        if run is None or run.state == "unfinished":
            return None
        row = row_of(run.rows, "loss", one.train_length)
        if row is not None and run.state == "done":
            found[one.learning_rate] = number(row, "loss", one.train_length)
    if not tried:
        return config
    # Where training failed at every rate, the verdict's runs will tell so.
    best = min(found, key=found.__getitem__) if found else rates[0]
    return replace(config, learning_rate=best)
