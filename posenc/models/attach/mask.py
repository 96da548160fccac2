"""The mask function of transformers' "posenc": a `Sight` in place of a tensor."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from posenc.models.attach.sight import Sight
from posenc.positions import Positions, Tokens, as_positions

# What these say follows from causality, one window or chunk, and where documents begin.
_BY_RULE = frozenset({"causal_mask_function", "bidirectional_mask_function", "and_mask"})


def posenc_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int | Tensor = 0,
    mask_function: Callable[..., Tensor] | None = None,
    attention_mask: Tensor | Sight | None = None,
    local_size: int | None = None,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **told: Any,
) -> Sight:
    """Who sees whom, for `transformers.AttentionMaskInterface`.

    Slots are counted from the first token of a cache; attention_mask (b, slots) tells padding. What
    a composed mask_function says is read off neighbours: a document or a chunk begins where a token
    does not see the one before it. Chunks that begin where the configuration has them are a rule. A
    function that transformers marks as the user's, or that joins masks by "or", is asked for every
    pair.
    """
    from transformers.masking_utils import causal_mask_function, sdpa_mask

    # Prepared before the forward pass, as `generate` does with static caches.
    if isinstance(attention_mask, Sight):
        return attention_mask
    function = causal_mask_function if mask_function is None else mask_function
    sizes = (batch_size, q_length, kv_length, q_offset, kv_offset, function)
    if attention_mask is not None and not _padded(attention_mask):
        attention_mask = None
    held = not isinstance(kv_offset, int) or kv_offset > 0
    if use_vmap or function.__name__ not in _BY_RULE or _joins(function):
        seen = sdpa_mask(
            *sizes, attention_mask, allow_is_causal_skip=False, use_vmap=use_vmap, device=device
        )
        # Sinks and lengths are counted from the first real token here, too.
        positions = slots(*sizes[1:5], device, attention_mask=attention_mask)
        return Sight(positions, seen=seen, held=held)
    causal = "allow_is_bidirectional_skip" not in told
    # Of both sides it reaches `local_size` tokens far; behind, the token itself is counted.
    window = local_size if local_size is None or causal else local_size + 1
    documents = chunk = None
    if function.__name__ == "and_mask":
        begins = _begins(function, batch_size, kv_length, kv_offset, device)
        width = getattr(told.get("config"), "attention_chunk_size", None)
        if causal and width is not None and width == local_size:
            start = _padding_before(attention_mask, device)
            if _by_chunk(begins, kv_offset, start, width):
                begins, chunk, window = None, width, None
        documents = None if begins is None else begins.cumsum(-1)
    counted = (
        isinstance(q_offset, int)
        and isinstance(kv_offset, int)
        and kv_offset == 0
        and (q_offset + q_length == kv_length or not causal)
    )
    plain = attention_mask is None and counted
    if documents is None and plain and q_length <= kv_length:
        place = torch.device(device)
        positions = as_positions(None, q_length, kv_length, causal=causal, device=place)
    elif documents is not None and plain and q_length == kv_length:
        positions = Positions.build(causal=causal, documents=documents)
    else:
        positions = slots(*sizes[1:5], device, causal, attention_mask, documents)
    return Sight(positions, window, chunk, held=held)


def slots(
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor,
    kv_offset: int | Tensor,
    device: torch.device | str,
    causal: bool = False,
    attention_mask: Tensor | None = None,
    documents: Tensor | None = None,
) -> Positions:
    """Queries and keys at their slots; what is padded before a sequence is not counted.

    Coordinates count from the first slot that is held, so that they stay below the number of keys.
    """
    q = torch.arange(q_length, device=device) + q_offset
    k = torch.arange(kv_length, device=device) + kv_offset
    start: int | Tensor = 0
    valid = None
    if attention_mask is not None:
        mask = attention_mask.to(device).bool()
        start = _padding_before(mask, device)
        # Slots of a static cache that nothing was written to yet have no entry.
        beyond = kv_length + kv_offset - mask.shape[-1]
        if isinstance(beyond, int) and beyond > 0:
            mask = pad(mask, (0, beyond))
        valid = mask[:, k]
    origin = start.clamp(min=kv_offset) if isinstance(start, Tensor) else kv_offset
    # Of the tensor, for a length that is made one would be fixed in an exported graph.
    length = q.amax() + 1 - start
    sides = []
    for slot in (q, k):
        order = slot - start
        spread = length.expand(order.shape) if length.ndim else length.expand(slot.shape[-1])
        sides.append(Tokens((slot - origin).clamp(min=0), order, length=spread))
    queries, keys = sides
    if documents is not None:
        index = (q - kv_offset).clamp(0, kv_length - 1)
        queries = Tokens(queries.position, queries.order, documents[:, index], queries.length)
        keys = Tokens(keys.position, keys.order, documents, keys.length, valid)
    else:
        keys = Tokens(keys.position, keys.order, None, keys.length, valid)
    return Positions(queries, keys, causal, unit_step=True)


def _joins(function: Any) -> bool:
    """Whether a mask function joins others by "or", itself or within.

    transformers puts documents around blocks of images, from 5.24 on. A graph cannot look into
    functions, and takes them for rules.
    """
    if torch.compiler.is_compiling():
        return False
    if getattr(function, "__name__", "") == "or_mask":
        return True
    kept = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    within = [x for y in kept for x in (y if isinstance(y, tuple) else (y,))]
    return any(_joins(x) for x in within if callable(x))


def _begins(
    function: Callable[..., Tensor],
    batch: int,
    keys: int,
    kv_offset: int | Tensor,
    device: torch.device | str,
) -> Tensor | None:
    """Where a document or a chunk begins (b, tk), but for the first; None where none does."""
    rows = torch.arange(batch, device=device)[:, None]
    # The first, before which nothing is held, is asked of itself: as many are asked as there are
    # keys, for a graph of one less would be another for two keys.
    slot = torch.arange(keys, device=device)
    before = (slot - 1).clamp(min=0)
    sees = function(rows, torch.zeros_like(rows), slot[None] + kv_offset, before[None] + kv_offset)
    begins = ~sees.expand(batch, keys)
    if not torch.compiler.is_compiling() and not bool(begins.any()):
        return None
    return begins


def _by_chunk(
    begins: Tensor | None, kv_offset: int | Tensor, start: Tensor | int, chunk: int
) -> bool:
    """Whether chunks of the first real token on, and nothing else, begin here.

    In a graph nobody knows, and in a packed row each document has chunks of its own.
    """
    if begins is None:
        return True
    if torch.compiler.is_compiling():
        return False
    order = torch.arange(begins.shape[-1], device=begins.device) + kv_offset - start
    expected = (order % chunk == 0).expand_as(begins).clone()
    expected[:, 0] = False
    return torch.equal(begins, expected)


def _padding_before(attention_mask: Tensor | None, device: torch.device | str) -> Tensor | int:
    """How many tokens (b, 1) of padding stand before the first real one."""
    if attention_mask is None:
        return 0
    return (attention_mask.to(device).bool().cumsum(-1) == 0).sum(-1, keepdim=True)


def _padded(attention_mask: Tensor) -> bool:
    """Whether there is padding; inside a graph that is not known, and there may be."""
    return torch.compiler.is_compiling() or not bool(attention_mask.all())
