"""What no cache can hold or carry on: each check says what to do about it.

`cache` is the one that refuses; messages show it.
"""

from collections.abc import Sized

import torch
from torch import Tensor

from posenc.caches.cached_positions import bounded
from posenc.encoding import Encoding
from posenc.equation import mask_rules
from posenc.errors import CacheError, shown
from posenc.joint_payload import keeps
from posenc.lowering import Lowerable, Lowered, Part, flatten
from posenc.mask_rules import Prefix
from posenc.normal_form.form import NormalForm
from posenc.positions import Documents, Positions
from posenc.terms import (
    ChunkZones,
    GatherTable,
    Householder,
    Polar,
    Rotate,
    Term,
    Transform,
    Zones,
)


def alike(held: Tensor, new: Tensor) -> bool:
    """Whether new keys or values can join those held: all but the number of tokens is the same."""
    same = held.dtype == new.dtype and held.device == new.device
    # By !=, for torch 2.7's dynamo does not find a symbolic size in a tuple.
    (rows, heads, _, width), (b, g, _, d) = held.shape, new.shape
    return same and not (rows != b or heads != g or width != d)


def check_alike(cache: object, name: str, held: Tensor | None, new: Tensor) -> None:
    """Raise CacheError for new keys or values that cannot join those held."""
    if held is not None and not alike(held, new):
        raise CacheError(
            f"{cache!r} has {name} of shape {tuple(held.shape)}, {held.dtype} on {held.device}, "
            f"but the new ones are {tuple(new.shape)}, {new.dtype} on {new.device}: use one cache "
            "per layer and per batch"
        )


def parts_of(encoding: Lowerable) -> list[Part]:
    """What an encoding is composed of; nothing is known of terms that come lowered."""
    return [] if isinstance(encoding, Lowered) else flatten(encoding)


def check_length_known(
    cache: object, length: int | None, encoding: Lowerable, placed: Positions | None
) -> None:
    """Raise CacheError where angles depend on the length and nobody says how long it will be.

    placed  where the held keys are, whose angles are of their extent
    """
    if isinstance(encoding, Lowered):
        if not encoding.length_dependent:
            return
        positions = encoding.positions
        made_for, needed = positions.extent, None
        if length is not None:
            # As `place` bounds them: of a first call an extent may be asked for that is larger.
            needed = bounded(positions if placed is None else placed, length).extent
        if needed is None or made_for != needed:
            other = "" if needed is None else f", not of {needed}"
            raise CacheError(
                "these terms turn by angles that depend on the length: give the final one to "
                f"both, Cache(length=...) and Positions.build(extent=...), or lower them for what "
                f"place gives; {cache!r}, and the terms were lowered for an extent of "
                f"{made_for}{other}"
            )
        return
    for part in flatten(encoding):
        changes = isinstance(part, Encoding) and part.tags.length_dependent
        if changes and length is None:
            raise CacheError(
                f"{part!r} turns by angles that depend on the length: give the final one, "
                f"{type(cache).__name__}(length=...), so that every step uses the same angles"
            )


def check_counted(cache: object, placed: Positions | None, new: int) -> Positions:
    """Where the held keys are; CacheError where ids placed them, which cannot be continued."""
    if placed is None or not placed.unit_step or placed.keys.position.ndim == 3:
        raise CacheError(
            f"{cache!r}: their positions are explicit ids, and nobody but you knows those of the "
            f"next {new}: pass positions= at every step"
        )
    return placed


def check_all_counted(cache: Sized, placed: Positions | None, new: int) -> Positions:
    """The same of all that is held; CacheError where more or less is held than was placed."""
    if placed is not None and placed.k_len != len(cache):
        raise CacheError(
            f"{cache!r}, of which the last call placed {placed.k_len}: where k and v were "
            "exchanged, pass positions= of all tokens"
        )
    return check_counted(cache, placed, new)


def check_all_told(cache: object, coordinates: Tensor, keys: int, new: int) -> None:
    """Raise CacheError for coordinates of other tokens than all of them, held and new."""
    count = coordinates.shape[1] if coordinates.ndim > 1 else coordinates.numel()
    if count != keys:
        raise CacheError(
            f"{cache!r} was given {new} more and positions of {count}: give those of all "
            f"{keys}, held and new, or none where tokens just count on"
        )


def check_unmoved(cache: Sized, placed: Positions, positions: Positions) -> None:
    """Raise CacheError where a key that is held, rotated at one place, is said to be elsewhere.

    Padding moves as it likes, and a traced graph reads no values.
    """
    if torch.compiler.is_compiling():
        return
    count = min(len(cache), placed.k_len)
    before, after = (_with_axes(x.keys[:count].position) for x in (placed, positions))
    if not all(a == b or 1 in (a, b) for a, b in zip(before.shape, after.shape, strict=True)):
        # The batches differ, which is refused later, where the tensors are known.
        return
    moved = (before != after).any(dim=-1)
    if positions.keys.valid is not None:
        moved = moved & positions.keys.valid[:, :count]
    columns = moved.any(dim=0).nonzero()
    if len(columns):
        raise CacheError(
            f"{cache!r}, turned where they were placed, but these positions put token "
            f"{int(columns[0])} elsewhere: give the positions of all tokens as they were, decode "
            f'with {type(cache).__name__}(policy="raw") where tokens move, or set placed to None '
            "where you turned the keys again"
        )


def _with_axes(position: Tensor) -> Tensor:
    """Coordinates as (1|b, t, axes)."""
    return position if position.ndim == 3 else position.view(-1, position.shape[-1], 1)


def check_rows(cache: object, rows: Tensor, k: Tensor | None) -> None:
    """Raise CacheError for what are no rows of its batch."""
    if not isinstance(rows, Tensor) or rows.ndim != 1 or rows.dtype != torch.int64:
        raise CacheError(
            f"{cache!r}.reorder({shown(rows)}): rows of the batch, int64 (b,), are needed"
        )
    # A GPU is not waited for.
    if k is not None and rows.is_cpu and ((rows < 0) | (rows >= k.shape[0])).any():
        raise CacheError(
            f"{cache!r}.reorder({shown(rows)}): its batch has {k.shape[0]} rows, counted from 0"
        )


def check_complete(cache: object, encoding: Lowerable) -> None:
    """Raise CacheError for what reads all tokens, where a cache leaves some out or adds slots."""
    for part in parts_of(encoding):
        if isinstance(part, Documents):
            raise CacheError(
                f"Documents tells of as many tokens as there are, but {cache!r} leaves tokens out "
                "or has slots for more: give Positions.build(documents=...) with the first call, "
                "and none later"
            )
        if keeps(part) and not part.payload_adds:
            raise CacheError(
                f"{part!r} keeps a payload of every token, and does not say that payloads of "
                f"neighbours may be summed (payload_adds), but {cache!r} leaves tokens out or "
                "fills slots with zeros: decode with Cache"
            )


def check_payload_fits(cache: object, held: Tensor, new: Tensor) -> None:
    """Raise CacheError for the payload of another batch, or of other heads."""
    if held.shape[:-1] != new.shape[:-1] or held.device != new.device:
        raise CacheError(
            f"{cache!r} has a payload of shape {tuple(held.shape)} on {held.device}, but the new "
            f"one is {tuple(new.shape)} on {new.device}: use one cache per layer and per batch"
        )


def check_prefix(cache: object, lowered: Lowered) -> None:
    """Raise CacheError where a prefix, whose tokens see each other, comes in parts."""
    counts = [rule.count for rule in mask_rules(lowered.terms) if isinstance(rule, Prefix)]
    if counts and not torch.compiler.is_compiling():
        prefix = max(counts)
        start = lowered.positions.orders()[0][..., 0]
        if ((start > 0) & (start < prefix)).any():
            raise CacheError(
                f"{cache!r} was given only a part of a prefix of {prefix} tokens, whose tokens "
                "see each other: give all of them in one call"
            )


def check_reads_rotated(cache: object, terms: tuple[Term, ...], key_heads: int) -> None:
    """Raise CacheError for a term that reads keys as they were before a rotation."""
    rotates = any(isinstance(term, (Rotate, ChunkZones)) for term in terms)
    for term in terms:
        raw = isinstance(term, (Zones, Householder, Polar))
        if isinstance(term, GatherTable):
            raw = rotates and term.side == "k"
        elif isinstance(term, (Rotate, ChunkZones)):
            turn = term.same if isinstance(term, ChunkZones) else term
            per_query_head = turn.k_angle is not None and turn.k_angle.shape[1] > key_heads
            raw = turn.grows or per_query_head
        elif isinstance(term, Transform):
            raw = term.k is not None and term.k.shape[1] > key_heads
        if raw:
            kind = type(cache).__name__
            raise CacheError(
                f"{type(term).__name__} reads keys that are not turned, but "
                f'{kind}(policy="rotated") keeps turned ones: use {kind}(policy="raw")'
            )


def signature_of(rotate: Rotate) -> tuple[object, ...]:
    """What must be the same of all keys of a cache: layout, first dimension, pairs and gain."""
    return rotate.layout, rotate.start, rotate.q_angle.shape[-1], rotate.gain


def signature_of_all(of_keys: Rotate | None, form: NormalForm) -> tuple[object, ...]:
    """The same of keys, and of values and matrices where there are; () where nothing turns."""
    found: tuple[object, ...] = () if of_keys is None else signature_of(of_keys)
    if form.value_rotation is not None:
        found = (*found, "values", *signature_of(form.value_rotation))
    if form.transform is not None:
        found = (*found, "matrices", *form.transform.q.shape[-3:])
    return found


def turn_of_keys(terms: tuple[Term, ...]) -> Rotate | None:
    """What turns the keys that a cache is given."""
    found = [term for term in terms if isinstance(term, (Rotate, ChunkZones))]
    turns = [term.same if isinstance(term, ChunkZones) else term for term in found]
    return turns[0] if turns else None
