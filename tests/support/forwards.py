"""Forward passes of models in transformers: texts that are padded, packed or cached."""

from typing import Any

import torch
from torch import Tensor

from posenc.models.cache_names import given_cache
from tests.support.families import VOCABULARY

# Relative to the largest logit: both round every layer's numbers to float32.
TOLERANCE = 1e-5


def text(rows: int = 2, length: int = 15, seed: int = 1) -> Tensor:
    """Random tokens (rows, length), none of them special."""
    return torch.randint(
        3, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed)
    )


def logits(model: Any, ids: Tensor, **told: Any) -> Tensor:
    with torch.no_grad():
        return model(ids, **told).logits


def checkpoint(model: Any, reentrant: bool = False) -> None:
    # By its newer name first, for the older warns.
    enable = getattr(model, "activation_checkpointing_enable", None)
    enable = model.gradient_checkpointing_enable if enable is None else enable
    enable({"use_reentrant": reentrant})


def left_padding(ids: Tensor, lengths: list[int]) -> dict[str, Tensor]:
    """attention_mask and position_ids of rows whose last tokens, as many as `lengths`, are real."""
    mask = torch.arange(ids.shape[1], 0, -1) <= torch.tensor(lengths)[:, None]
    positions = (mask.long().cumsum(-1) - 1).clamp(min=0)
    return {"attention_mask": mask.long(), "position_ids": positions}


def decoded(model: Any, ids: Tensor, cache: Any, chunks: list[int], **told: Any) -> Tensor:
    """Logits of all tokens, of which `chunks` at a time are shown behind a cache."""
    mask, positions = told.get("attention_mask"), told.get("position_ids")
    parts = []
    for start, stop in zip(_starts(chunks), _starts(chunks)[1:], strict=False):
        step: dict[str, Any] = {**given_cache(model, cache), "use_cache": True}
        if mask is not None:
            step["attention_mask"] = mask[:, :stop]
        if positions is not None:
            step["position_ids"] = positions[:, start:stop]
        parts.append(logits(model, ids[:, start:stop], **step))
    return torch.cat(parts, dim=1)


def _starts(chunks: list[int]) -> list[int]:
    return [sum(chunks[:i]) for i in range(len(chunks) + 1)]


def assert_same(made: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> None:
    """Equal to within `tolerance` of the largest number."""
    assert not made.isnan().any()
    apart = (made - expected).abs().max() / expected.abs().max()
    assert apart < tolerance, f"{apart:.1e} of the largest number apart"


def assert_differ(made: Tensor, expected: Tensor, why: str) -> None:
    """Further apart than any rounding."""
    assert (made - expected).abs().max() > 0.05 * expected.abs().max(), f"no longer: {why}"
