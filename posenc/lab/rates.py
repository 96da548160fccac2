"""A learning rate for each arm, from a grid, by the train length alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from posenc.errors import SettingError
from posenc.lab.config import RunConfig
from posenc.lab.folder import read_run
from posenc.lab.measured import Metric, number, row_of

LOSSES: tuple[Metric, ...] = ("loss", "windows")

# The seed of runs that look for a learning rate; nothing else reads them.
RATE_SEED = 1000


def is_search(config: RunConfig) -> bool:
    """Whether a run looks for a learning rate: it has that seed and no test length but its own."""
    return config.seed == RATE_SEED and config.test_lengths == (config.train_length,)


def check_seeds(seeds: int) -> None:
    """Raise SettingError for seeds 0, 1, ... that would come to those of a search."""
    if not 1 <= seeds <= RATE_SEED:
        raise SettingError(
            f"seeds is {seeds}: it must be at least 1 and at most {RATE_SEED}, because runs that "
            f"look for a learning rate have the seed {RATE_SEED}"
        )


def looking(rates: Sequence[float], config: RunConfig) -> list[RunConfig]:
    """Runs of one arm at each learning rate, tested at the train length alone.

    What begins with another's weights keeps the rate that it has.
    """
    grid = dict.fromkeys(rates)
    if len(grid) < 2 or config.base:
        return []
    tested = replace(config, seed=RATE_SEED, test_lengths=(config.train_length,))
    return [replace(tested, learning_rate=rate) for rate in grid]


def with_rate(rates: Sequence[float], config: RunConfig, out: Path) -> RunConfig | None:
    """The arm at the rate that came out best; None while that is not known.

    Best is the lowest loss at the train length: of targets, or of windows where a task has no
    other. A rate at which training failed is none.
    """
    found: dict[float, float] = {}
    tried = looking(rates, config)
    for one in tried:
        run = read_run(out / "runs" / one.name)
        if run is None or run.state == "unfinished":
            return None
        rows = [row_of(run.rows, metric, one.train_length) for metric in LOSSES]
        row = next((row for row in rows if row is not None), None)
        if row is not None and run.state == "done":
            found[one.learning_rate] = number(row, "loss", one.train_length)
    if not tried:
        return config
    # Where training failed at every rate, the verdict's runs will tell so.
    best = min(found, key=found.__getitem__) if found else rates[0]
    return replace(config, learning_rate=best)
