"""What a model's output does when all tokens stand further on.

Letters: b texts, t tokens.
"""

from dataclasses import asdict, dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from posenc.analysis.inspect.change import change
from posenc.inspection.numbers import plain

SHIFTS = (1, 16, 256, 1024, 4096, 16384, 65536)
# A mean change below this part of the output's spread is rounding.
ROUNDING = 1e-3


@dataclass(frozen=True)
class Shifts:
    """Changes of the output by shift, what the output is in words, and why there are none."""

    changes: list[dict[str, Any]]
    compared: str = "output"
    why_not: str | None = None


def shifted(model: Any, ids: Tensor, first: int, longest: int | None) -> Shifts:
    """Changes of the output of ids (1, t) at position_ids + s, for shifts in the trained length.

    `first` is the position of the first token.
    """
    if "position_ids" not in signature(model.forward).parameters:
        return Shifts([], why_not=f"{type(model).__name__} takes no position_ids")
    t = ids.shape[1]
    if longest is not None and longest <= t:
        why = f"the text is as long as the model takes ({longest} tokens): give fewer --tokens"
        return Shifts([], why_not=why)
    given, compared = output(model, ids)
    at = torch.arange(t)[None]
    # OPT counts its first rows itself, RoBERTa leaves it to position_ids.
    for start in dict.fromkeys((first, 0)):
        if change(given, output(model, ids, at + start)[0]).relative < ROUNDING:
            break
    else:
        return Shifts([], why_not="position_ids that count from the first token are not its own")
    changes = []
    for shift in SHIFTS if longest is None else [s for s in SHIFTS if s <= longest - t]:
        found = change(given, output(model, ids, at + start + shift)[0])
        changes.append({"shift": shift} | {name: plain(x) for name, x in asdict(found).items()})
    return Shifts(changes, compared)


def output(model: Any, ids: Tensor, position_ids: Tensor | None = None) -> tuple[Tensor, str]:
    """Logits (b, t, n) where the model has them for each token, else its last hidden states; and
    which of the two."""
    given = {} if position_ids is None else {"position_ids": position_ids}
    with torch.no_grad():
        logits = getattr(model(ids, **given), "logits", None)
        if logits is not None and logits.shape[:2] == ids.shape:
            return logits, "logits"
        return model.base_model(ids, **given)[0], "hidden states"
