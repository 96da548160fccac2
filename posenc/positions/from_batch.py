"""Positions of a batch as collators of transformers and TRL make it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.positions import Positions
from posenc.positions.tokens import check_tensors, reading_values

# As transformers hands them to flash-attention, and as flash-attention calls them.
_CUMULATIVE = ("cu_seq_lens_q", "cu_seqlens_q", "cu_seqlens")
_TOKENS = ("input_ids", "inputs_embeds", "labels")


def positions_from(batch: Mapping[str, Any], *, causal: bool = True) -> Positions:
    """Positions of all tokens of a batch, from the keys that collators use.

    attention_mask  (b, t): 0 for padding; numbers above 1 tell documents apart (multipack)
    cu_seq_lens_q   (documents + 1,) of one row, also by the name cu_seqlens
    seq_idx         (b, t): a number for each document
    position_ids    (b, t), or (axes, b, t) as for images in text: coordinates. Where nothing else
                    tells documents, one begins at each real token whose position falls or is the
                    row's smallest again; a leap ahead begins none, nor do ties farther on. Of
                    several axes some must fall and none may rise

    Documents do not see each other. Raises PositionsError for a batch of none of these keys nor
    tokens, keys that contradict each other, and masks of four dimensions.

    Example: `positions_from({"position_ids": torch.tensor([[0, 1, 2, 0, 1]])})`.
    """
    _check_shapes(batch)
    mask, ids = batch.get("attention_mask"), batch.get("position_ids")
    length, told = _length(batch), _documents(batch)
    if mask is not None and mask.ndim != 2:
        raise PositionsError(
            f"positions_from: attention_mask of shape {tuple(mask.shape)}: (b, t) is needed; who "
            "sees whom, pair by pair, is no position"
        )
    if mask is not None and told is None and reading_values() and bool((mask > 1).any()):
        told = mask.long()
    if told is None and ids is not None:
        told = runs(ids, None if mask is None else mask.bool())
    counted = Positions.build(
        length, causal=causal, attention_mask=mask, documents=told, device=_device(batch)
    )
    if ids is None or (reading_values() and _counts(ids, counted)):
        return counted
    return counted.at(ids.movedim(0, -1) if ids.ndim == 3 else ids)


def _check_shapes(batch: Mapping[str, Any]) -> None:
    """Raise PositionsError for what is no tensor, and for a row without its batch."""
    for name in ("attention_mask", "position_ids", "seq_idx", *_TOKENS, *_CUMULATIVE):
        given = batch.get(name)
        if given is None:
            continue
        check_tensors("positions_from", **{name: given})
        if given.ndim < 2 and name not in _CUMULATIVE:
            raise PositionsError(
                f"positions_from: {name} of shape {tuple(given.shape)}: (b, t) is needed, of one "
                f"row {name}[None]"
            )


def _length(batch: Mapping[str, Any]) -> int:
    for name in ("attention_mask", "position_ids", "seq_idx"):
        if batch.get(name) is not None:
            return batch[name].shape[-1]
    for name in _TOKENS:
        if batch.get(name) is not None:
            return batch[name].shape[1]
    raise PositionsError(
        f"positions_from: a batch of {sorted(batch)}: none of attention_mask, position_ids, "
        "seq_idx and input_ids is there, and so not even the number of tokens"
    )


def _device(batch: Mapping[str, Any]) -> torch.device | None:
    return next((x.device for x in batch.values() if isinstance(x, Tensor)), None)


def _documents(batch: Mapping[str, Any]) -> Tensor | None:
    """A number per token, where a key says which document it is in."""
    name = next((name for name in _CUMULATIVE if batch.get(name) is not None), None)
    numbers = batch.get("seq_idx")
    if name is None:
        return None if numbers is None else numbers.long()
    tokens = _length(batch)
    packed = Positions.build(tokens, tokens, cu_seqlens=batch[name], device=_device(batch))
    document = packed.keys.document
    assert document is not None
    if numbers is not None and not torch.equal(_begins(numbers)[0], _begins(document[None])[0]):
        raise PositionsError(f"positions_from: {name} and seq_idx tell of other documents")
    return document


def _begins(numbers: Tensor) -> Tensor:
    """Where a document begins, but for the first, (b, t - 1)."""
    return numbers[:, 1:] != numbers[:, :-1]


def runs(ids: Tensor, real: Tensor | None = None) -> Tensor | None:
    """A number (b, t) for each run of positions, (b, t) or (axes, b, t); None where all are one.

    One begins at a real token whose position falls, or is the row's smallest again, which is where
    documents of a single token begin. Tokens of an image may share a position farther on.
    transformers begins one at every tie and every leap ahead, too. Of several axes some fall and
    none rises: in an image one rises at the end of a row, and another falls.
    """
    before, after = ids[..., :-1], ids[..., 1:]
    if ids.ndim == 3:
        begins = (after <= before).all(dim=0) & (after < before).any(dim=0)
    else:
        largest = (torch.finfo if ids.is_floating_point() else torch.iinfo)(ids.dtype).max
        least = ids if real is None else ids.masked_fill(~real, largest)
        begins = (after < before) | (after == least.amin(dim=1, keepdim=True))
    if real is not None:
        begins = begins & real[:, 1:] & real[:, :-1]
    if reading_values() and not bool(begins.any()):
        return None
    return torch.nn.functional.pad(begins, (1, 0)).cumsum(-1)


def _counts(ids: Tensor, counted: Positions) -> bool:
    """Whether real tokens are where they were counted to be."""
    valid = counted.keys.valid
    apart = ids != counted.keys.position
    return not bool((apart if valid is None else apart & valid).any())
