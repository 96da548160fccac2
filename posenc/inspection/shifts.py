"""What a model's output does when all tokens stand further on.

Letters: b texts, t tokens.
"""

from dataclasses import asdict
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from posenc.analysis.inspect.change import change
from posenc.inspection.numbers import plain

SHIFTS = (1, 16, 256, 1024, 4096, 16384, 65536)
# A mean change below this part of the output's spread is rounding.
ROUNDING = 1e-3


def shift_data(
    model: Any, ids: Tensor, first: int, longest: int | None
) -> tuple[list[dict[str, Any]], str | None]:
    """Change of the output of ids (1, t) at position_ids + s, for shifts within the trained length.

    `first` is the position of the first token. Where it cannot be measured there is no number but
    a sentence that says why.
    """
    if "position_ids" not in signature(model.forward).parameters:
        return [], f"{type(model).__name__} takes no position_ids"
    t = ids.shape[1]
    if longest is not None and longest <= t:
        return [], f"the text is as long as the model takes ({longest} tokens): give fewer --tokens"
    given = output(model, ids)
    at = torch.arange(t)[None]
    # OPT counts its first rows itself, RoBERTa leaves it to position_ids.
    starts = [s for s in dict.fromkeys((first, 0)) if _same(given, output(model, ids, at + s))]
    if not starts:
        return [], "position_ids that count from the first token give another output than none"
    data = []
    for shift in SHIFTS if longest is None else [s for s in SHIFTS if s <= longest - t]:
        found = change(given, output(model, ids, at + starts[0] + shift))
        data.append({"shift": shift} | {name: plain(x) for name, x in asdict(found).items()})
    return data, None


def output(model: Any, ids: Tensor, position_ids: Tensor | None = None) -> Tensor:
    """Logits (b, t, n) where the model has them for each token, else its last hidden states."""
    given = {} if position_ids is None else {"position_ids": position_ids}
    with torch.no_grad():
        found = model(ids, **given)
    logits = getattr(found, "logits", None)
    return found[0] if logits is None or logits.shape[:2] != ids.shape else logits


def what_is_compared(model: Any, ids: Tensor) -> str:
    """In words, what `output` returns."""
    return "logits" if hasattr(model(ids[:, :2]), "logits") else "hidden states"


def _same(before: Tensor, after: Tensor) -> bool:
    return change(before, after).relative < ROUNDING
