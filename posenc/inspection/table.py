"""A model's learned table of positions, as data."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from posenc.analysis.inspect.principal_components import principal_components
from posenc.analysis.inspect.table_rows import table_rows
from posenc.inspection.numbers import as_json, plain

# A picture shows no more rows and columns than these.
CELLS = 128


def table_data(weight: Tensor, deviation: float | None) -> dict[str, Any]:
    """Of a table (n, c): some of its numbers, cosines of rows, components, and which rows look
    trained. `deviation` is that of the numbers at initialisation, as config.json tells it."""
    rows = weight.detach().double()
    shown, columns = _thinned(rows.shape[0]), _thinned(rows.shape[1])
    unit = normalize(rows[shown], dim=1)
    told = table_rows(rows, deviation)
    found = principal_components(rows, min(3, *rows.shape))
    return {
        "rows": rows.shape[0],
        "columns": rows.shape[1],
        "deviation": deviation,
        "shown_rows": shown.tolist(),
        "shown_columns": columns.tolist(),
        "values": as_json(rows[shown][:, columns]),
        "cosines": as_json(unit @ unit.mT),
        "components": {
            "share": as_json(found.share),
            "coordinates": as_json(found.coordinates),
        },
        "norm": as_json(told.norm),
        "neighbour": as_json(told.neighbour),
        "state": list(told.state),
        "states": {
            state: _ranges([n for n, x in enumerate(told.state) if x == state])
            for state in dict.fromkeys(told.state)
        },
        "spread": plain(rows.std(correction=0).item()),
    }


def _thinned(count: int) -> Tensor:
    """Every number below count, or CELLS of them, evenly spaced."""
    shown = min(count, CELLS)
    return (torch.arange(shown) * count / shown).long()


def _ranges(numbers: list[int]) -> list[list[int]]:
    """First and last of each run of consecutive numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs
