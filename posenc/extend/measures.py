"""What a cell measures: functions of a model, with the cell's method under it, and the material."""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from posenc.extend.cells import Cell, Lengths
from posenc.extend.forward import score
from posenc.extend.material import Material

Measure = Callable[[Any, Material, Lengths, int, Cell], dict[str, Any]]


def windows(
    model: Any, material: Material, lengths: Lengths, seed: int, cell: Cell
) -> dict[str, Any]:
    """Every token of one window: the mean loss in bins of position, and that of the last tokens."""
    loss = score(model, material.span(cell.index, cell.length)).loss
    return _binned(loss, lengths, cell)


def sliding(
    model: Any, material: Material, lengths: Lengths, seed: int, cell: Cell
) -> dict[str, Any]:
    """The same tokens, read by the model as it is in windows of the trained length.

    Each window begins half a window behind the one before and is scored where that did not reach,
    so that past the first every token has half the trained length before it, or more. The last
    window ends with the span.
    """
    ids = material.span(cell.index, cell.length)
    width, step = lengths.trained, max(1, lengths.trained // 2)
    parts, done = [], 1
    while done < len(ids):
        end = min(len(ids), max(width, done + step))
        begin = max(0, end - width)
        # Each window is a text of its own, and opens as one.
        window = material.opened(ids[begin + len(material.opening) : end])
        parts.append(score(model, window, done - begin).loss)
        done = end
    return _binned(torch.cat(parts), lengths, cell)


def targets(
    model: Any, material: Material, lengths: Lengths, seed: int, cell: Cell
) -> dict[str, Any]:
    """The last tokens of a span, read with less context before them."""
    ids = material.span(cell.index, cell.length)
    return {"targets": _mean(score(model, ids, len(ids) - lengths.targets).loss)}


def short(
    model: Any, material: Material, lengths: Lengths, seed: int, cell: Cell
) -> dict[str, Any]:
    """Every token of a text as short as the model was trained for."""
    return {"loss": _mean(score(model, material.span(cell.index, cell.length)).loss)}


def passkey(
    model: Any, material: Material, lengths: Lengths, seed: int, cell: Cell
) -> dict[str, Any]:
    """Whether greedy decoding would say the key: each of its tokens has rank 0."""
    hidden = material.passkey(cell.length, cell.depth, f"{seed}/{cell.index}")
    scored = score(model, hidden.ids, hidden.first)
    ranks = scored.rank.tolist()
    return {"exact": not any(ranks), "ranks": ranks, "loss": _mean(scored.loss)}


MEASURES: Mapping[str, Measure] = {
    "windows": windows,
    "targets": targets,
    "sliding": sliding,
    "short": short,
    "passkey": passkey,
    "control": passkey,
}


def _binned(loss: Tensor, lengths: Lengths, cell: Cell) -> dict[str, Any]:
    """The first loss is that of position 1."""
    edges = [edge for edge in lengths.edges if edge < cell.length] + [cell.length]
    bins = [_mean(loss[max(a - 1, 0) : b - 1]) for a, b in pairwise(edges)]
    return {
        "edges": edges,
        "bins": bins,
        "loss": _mean(loss),
        "targets": _mean(loss[-lengths.targets :]),
    }


def _mean(loss: Tensor) -> float | None:
    """The mean in float64; None where a model broke down to what is no number."""
    mean = float(loss.double().mean())
    return mean if math.isfinite(mean) else None
