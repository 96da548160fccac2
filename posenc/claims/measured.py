"""The numbers that claims speak of, from the rows of their runs."""

import math
from collections.abc import Sequence

from posenc.claims.claim import Cell
from posenc.lab.folder import Run
from posenc.lab.measured import Values, bounds, number, own_error, row_of


def values(cell: Cell, runs: Sequence[Run], length: int) -> Values | None:
    """A cell of the runs of its arm, at a length; None where none has it.

    A loss that is no finite number, every number of a run that failed, and one that a run could not
    give where others did are infinite: without them the survivors would be judged. Runs that have
    not ended are left out.
    """
    by_seed, lacking, found, task = {}, [], [], ""
    for run in runs:
        if run.state == "failed":
            by_seed[run.config.seed] = math.inf
        if run.state != "done":
            continue
        row = row_of(run.rows, cell.metric, length)
        if row is None:
            if any(x["kind"] == "missing" and x["length"] == length for x in run.rows):
                lacking.append(run.config.seed)
            continue
        by_seed[run.config.seed] = number(row, cell.metric, length)
        found.append(row)
        task = run.config.task
    if by_seed:
        by_seed |= dict.fromkeys(lacking, math.inf)
    if not by_seed:
        return None
    return Values(by_seed, own_error(found, cell.metric, task), bounds(cell.metric))
