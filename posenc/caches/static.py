"""The cache of fixed shapes: one compiled graph serves every step."""

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.caches.cache import Cache, Policy
from posenc.caches.cached_positions import continued
from posenc.caches.checks import alike, check_counted
from posenc.errors import CacheError, whole
from posenc.lowering import Lowered
from posenc.positions import Positions, Tokens, as_positions
from posenc.torch_modes import captured


class StaticCache(Cache):
    """A cache of `length` slots, written in place at a position that is a tensor.

    length  how many tokens fit; also the length that encodings which depend on one are fixed to
    policy  as in Cache

    The first call allocates, and attends to its own tokens alone. Every later one attends to all
    slots, of which those not yet written are hidden, so that no shape and no Python number
    changes: torch.compile(fullgraph=True) makes one graph for all steps with as many tokens.
    Padding and packing are carried on as in Cache; with explicit ids, and after them, a later call
    needs Positions(queries, keys) of the new tokens and of all `length` slots, with their orders.

    Raises CacheError for more tokens than slots (in a compiled graph, which reads no values, it
    is torch's RuntimeError), for queries that need gradients, which writing in place would break,
    for Documents, and for a payload that does not add up; SettingError for length < 1.

    position  int64, without dimensions: how many slots are written

    Example: `attend(q, k, v, Rotary(64), causal=True, cache=StaticCache(4096))`.
    """

    complete = False

    def __init__(self, length: int, policy: Policy = "rotated") -> None:
        # Others may be without a length.
        whole("StaticCache", length=length)
        super().__init__(policy, length)
        self.capacity = length
        self.position: Tensor | None = None
        # A Python fact: the first call is another graph than the others.
        self.started = False

    def __copy__(self) -> "StaticCache":
        """With slots of its own, as both are written in place."""
        return copy.deepcopy(self)

    def __len__(self) -> int:
        return int(self._position()) if self.started else 0

    def keys(self, new: int) -> int:
        return self.capacity if self.started else new

    def own(self, new: int) -> Tensor | None:
        """The slots that the new tokens are written to; None in the first call."""
        return self._slots(new) if self.started else None

    def append(
        self, k: Tensor, v: Tensor, lowered: Lowered, payload: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Lowered]:
        """All slots with the new tokens in theirs; in the first call the new tokens alone."""
        written = [x for x in (k, v, payload) if x is not None]
        if torch.is_grad_enabled() and any(x.requires_grad for x in written):
            raise CacheError(
                f"{self!r} is written in place, and a gradient would be computed from overwritten "
                "values: decode under torch.no_grad(), or with Cache"
            )
        self.make_writable()
        if not self.started:
            return self._first(k, v, lowered, payload)
        k, v, lowered = self._ready(k, v, lowered)
        slots = self._slots(k.shape[-2])
        assert self.k is not None
        assert self.v is not None
        self.k.index_copy_(2, slots, k)
        self.v.index_copy_(2, slots, v)
        if self.payload is not None and payload is not None:
            self.payload.copy_(payload)
        placed = self._placed_after(lowered.positions, slots)
        if placed is not self.placed:
            self.placed = placed
        self.count_on(k.shape[-2])
        return self.k, self.v, lowered

    def make_writable(self) -> None:
        """Move what inference mode made to memory that may be written outside of it."""
        held = self.k, self.v, self.payload, self.position
        if torch.compiler.is_compiling() or torch.is_inference_mode_enabled():
            return
        if any(x is not None and x.is_inference() for x in held):
            self.k, self.v, self.payload, self.position = (
                None if x is None else x.clone() for x in held
            )

    def count_on(self, new: int) -> None:
        """As many more slots are written; `append` and steps that write them themselves call it."""
        self._position().add_(new)

    def reset(self) -> None:
        """Forget every token; the slots stay allocated."""
        self.make_writable()
        self.started = False
        self.payload = self.placed = self.rotation_signature = None
        for held in (self.k, self.v, self.position):
            if held is not None:
                held.zero_()

    def reorder(self, rows: Tensor) -> None:
        """As in Cache; in place where there are as many rows as before."""
        self.make_writable()
        before = self.k, self.v, self.payload
        super().reorder(rows)
        if before[0] is not None and self.k is not None and before[0].shape == self.k.shape:
            self.k, self.v, self.payload = (
                None if held is None or new is None else held.copy_(new)
                for held, new in zip(before, (self.k, self.v, self.payload), strict=True)
            )

    def truncate(self, length: int) -> None:
        """As in Cache: later tokens overwrite those that are taken back."""
        self._check_kept(length)
        if length == 0:
            self.reset()
        elif self.position is not None:
            self.make_writable()
            self._clear(length, len(self))
            self.position.fill_(length)
            if self.placed is not None and not _counts_on(self.placed.keys, length):
                self.placed = self._counted_from(self.placed, length)

    def saved(self) -> dict[str, Any]:
        state = super().saved()
        return state | {"position": None if self.position is None else self.position.clone()}

    def restore(self, state: dict[str, Any]) -> None:
        self.make_writable()
        position = self.position
        super().restore(state)
        self.make_writable()
        if position is not None and self.position is not None:
            # In place, as a graph knows it.
            self.position = position.copy_(self.position)
        # A call that failed may have written before it counted.
        self._clear(len(self), self.capacity)

    def _clear(self, start: int, end: int) -> None:
        """Zeros in these slots: what is hidden has a weight of 0, which leaves NaN what it is.

        A payload is written whole, and so cleared to its end.
        """
        if self.payload is not None:
            self.payload[..., start:] = 0
        for held in (self.k, self.v):
            if held is not None:
                held[:, :, start:end] = 0

    def _check_room(self, new: int, q_len: int) -> None:
        if self.started and q_len != new:
            raise CacheError(f"{self!r} got {q_len} queries and {new} new keys: give as many")
        if not torch.compiler.is_compiling() or not self.started:
            super()._check_room(new, q_len)
        else:
            torch._assert_async(self._position() + new <= self.capacity, "StaticCache is full")

    def _position(self) -> Tensor:
        assert self.position is not None
        return self.position

    def _slots(self, new: int) -> Tensor:
        """Where the new tokens are written."""
        return self._position() + torch.arange(new, device=self._position().device)

    def _of_new(self, wave: Tensor, new: int) -> Tensor:
        # Terms that were lowered for all slots hold those of the new tokens in the midst.
        if self.started and wave.shape[-2] == self.capacity:
            return wave.index_select(-2, self._slots(new))
        return super()._of_new(wave, new)

    def _begins(self) -> bool:
        return not self.started

    def _following(self, new: int, q_len: int, causal: bool | None) -> Positions:
        placed = check_counted(self, self.placed, new)
        queries = placed.ordered().keys[self._slots(new)]
        causal = placed.causal if causal is None else causal
        return self._hiding_unwritten(replace(placed, queries=queries, causal=causal), new)

    def _told(self, at: Positions | Tensor, new: int, q_len: int, causal: bool | None) -> Positions:
        if not self.started:
            return super()._told(at, new, q_len, causal)
        if not isinstance(at, Positions) or at.queries.order is None:
            raise CacheError(
                f"{self!r}: the new tokens are not the last of the slots, so positions= must tell "
                "their order: give Positions(Tokens(..., order=...), Tokens(..., order=...)) of "
                f"{new} queries and {self.capacity} keys, or none where tokens just count on"
            )
        return self._hiding_unwritten(as_positions(at, new, self.capacity, causal=causal), new)

    def _placed_after(self, told: Positions, slots: Tensor) -> Positions | None:
        """Where tokens are after those that were written to these slots, as was told of them.

        Where all slots were placed, tokens that count on change nothing.
        """
        placed = self.placed
        if placed is not None and told.keys.position is placed.keys.position:
            return placed
        if torch.compiler.is_compiling() or captured([slots]):
            # A graph reads no values, and what it makes is its own. So nobody knows by now where
            # explicit ids put these tokens, or as much as before where others were put so too.
            counts = placed is not None and (told.unit_step or not placed.unit_step)
            return placed if counts else None
        if placed is not None and _alike_at(slots, placed, told):
            return placed
        # The slots behind them were not told of, so that nobody can count on.
        return replace(told, unit_step=False)

    def _counted_from(self, told: Positions, count: int) -> Positions:
        """Positions of all slots, of which the first `count` are told of, where tokens count on.

        Where tokens to come will be is known then, so that later steps only look it up.
        """
        if not told.unit_step or told.keys.position.ndim == 3:
            return told
        keys = told.ordered().keys[:count]
        held = replace(told, queries=keys, keys=keys)
        return continued(held, self.capacity - count, 1, length=self.capacity).ordered()

    def _hiding_unwritten(self, positions: Positions, new: int) -> Positions:
        written = torch.arange(self.capacity, device=positions.device) < self._position() + new
        keys = positions.keys
        valid = written[None] if keys.valid is None else keys.valid & written
        return replace(positions, keys=replace(keys, valid=valid))

    def _payload_joined(self, held: Tensor, new: Tensor) -> Tensor:
        """The payload of all slots, with the new ones in their place."""
        return held.index_copy(-1, self._slots(new.shape[-1]), new.to(held.dtype))

    def _first(
        self, k: Tensor, v: Tensor, lowered: Lowered, payload: Tensor | None
    ) -> tuple[Tensor, Tensor, Lowered]:
        new = k.shape[-2]
        fits = self.k is not None and self.v is not None and alike(self.k, k) and alike(self.v, v)
        if not fits:
            self.k = self.v = self.position = None
        k, v, lowered = self._ready(k, v, lowered)
        if self.k is None or self.v is None:
            self.k, self.v = (
                x.new_zeros((*x.shape[:2], self.capacity, x.shape[-1])) for x in (k, v)
            )
        self.k[:, :, :new], self.v[:, :, :new] = k, v
        if payload is not None:
            self.payload = payload.new_zeros((*payload.shape[:-1], self.capacity))
            self.payload[..., :new] = payload
        self.placed = self._counted_from(lowered.positions, new)
        self.position = (
            torch.full((), new, device=k.device)
            if self.position is None
            else self.position.fill_(new)
        )
        self.started = True
        return k, v, lowered


def _counts_on(keys: Tokens, count: int) -> bool:
    """Whether slots behind the first `count` are placed as tokens that count on from these.

    Within a prompt there may be padding, or another document.
    """
    valid, document = keys.valid, keys.document
    if valid is not None and not bool(valid[:, count - 1 :].all()):
        return False
    if document is None:
        return True
    return bool((document[..., count:] == document[..., count - 1 : count]).all())


def _alike_at(slots: Tensor, placed: Positions, told: Positions) -> bool:
    """Whether positions that are counted put the tokens of these slots at the same places."""
    if not (placed.unit_step and told.unit_step) or told.keys.position.ndim == 3:
        return False
    one, other = (x.ordered().keys[slots] for x in (placed, told))
    assert one.order is not None
    assert other.order is not None
    pairs = (one.position, other.position), (one.order, other.order)
    return all(torch.equal(*torch.broadcast_tensors(x, y)) for x, y in pairs)
