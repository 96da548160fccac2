"""The cache of a window with sinks, or of a chunk: what later queries can see, and no more."""

import torch
from torch import Tensor

from posenc.caches.cache import Cache, Policy
from posenc.caches.cached_positions import selected
from posenc.equation import mask_rules
from posenc.errors import CacheError, SettingError, given, whole
from posenc.lowering import Lowered
from posenc.mask_rules import Chunk, Sink, Window
from posenc.positions import Positions, as_positions
from posenc.positions.rolling import kept


class RollingCache(Cache):
    """A cache of bounded size: the first `sinks` tokens and the last of a window or a chunk.

    window  tokens that a query sees, itself included, as in SlidingWindow(window)
    chunk   tokens that see each other, as in Chunked(chunk): none is kept of a chunk that is full
    sinks   first tokens that stay visible, as in Sinks(sinks)
    policy  as in Cache; StreamingLLM's Sinks(count, window, rotary) and LMInfinite need "raw"
    length  as in Cache

    Give the masks as you would without a cache, [encoding, SlidingWindow(window), Sinks(sinks)]
    or [encoding, Chunked(chunk)]:
    what is evicted is what they hide from every later query, so that decoding equals the full
    forward under the same masks. Tokens keep their positions and orders; sinks are the first real
    tokens of each row, and of the last document. A payload is evicted alike where it adds up.

    Raises CacheError for an encoding that could see evicted keys, SettingError for window < 1,
    chunk < 1 and neither of them, and for sinks < 0.

    Example: `attend(q, k, v, [Rotary(64), SlidingWindow(256), Sinks(4)], causal=True,
    cache=RollingCache(256, sinks=4))`.

    Source: Xiao et al. 2024, arXiv:2309.17453, section 3.2 (StreamingLLM), with true positions.
    """

    complete = False

    def __init__(
        self,
        window: int | None = None,
        sinks: int = 0,
        policy: Policy = "rotated",
        length: int | None = None,
        chunk: int | None = None,
    ) -> None:
        super().__init__(policy, length)
        whole("RollingCache", **given(window=window, chunk=chunk))
        if window is None and chunk is None:
            raise SettingError(
                "RollingCache() of no size: give the window or the chunk that a query sees, "
                "RollingCache(256) or RollingCache(chunk=8192), or take Cache() for all tokens"
            )
        whole("RollingCache", 0, sinks=sinks)
        self.window, self.sinks, self.chunk = window, sinks, chunk
        # Tokens so far, and which of them are held; None: all of them.
        self.seen = 0
        self.columns: Tensor | None = None

    def _told(self, at: Positions | Tensor, new: int, q_len: int, causal: bool | None) -> Positions:
        of_held = isinstance(at, Positions) and at.k_len == self.keys(new)
        if self.columns is None or of_held:
            return super()._told(at, new, q_len, causal)
        # They are of all tokens so far, evicted ones too.
        whole = as_positions(at, q_len, self.seen + new, causal=causal)
        return selected(whole, self._with_new(self.columns, new))

    def payload_with(self, new: Tensor | None) -> Tensor | None:
        held = self.payload
        # What one row told for all differs by row once evictions were folded behind padding.
        if held is not None and new is not None and new.shape[0] == 1:
            new = new.expand(held.shape[0], *new.shape[1:])
        return super().payload_with(new)

    def append(
        self, k: Tensor, v: Tensor, lowered: Lowered, payload: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Lowered]:
        """All keys and values that the new tokens may see; what later ones cannot is evicted."""
        self._check_masks(lowered)
        new = k.shape[-2]
        k, v, lowered = super().append(k, v, lowered, payload)
        columns = None if self.columns is None else self._with_new(self.columns, new)
        self.seen += new
        keep = self._needed(lowered.positions)
        if keep is not None:
            self.k, self.v = k.index_select(2, keep), v.index_select(2, keep)
            if payload is not None:
                payload = _folded(payload, keep, lowered.positions.keys.valid)
            self.payload = payload
            self.placed = selected(lowered.positions, keep)
            columns = keep if columns is None else columns[keep]
        self.columns = columns
        return k, v, lowered

    def _joined(self, k: Tensor, new_k: Tensor, v: Tensor, new_v: Tensor) -> tuple[Tensor, Tensor]:
        # What is kept is copied out at once, so that room for more would stay unused.
        return torch.cat((k, new_k), dim=2), torch.cat((v, new_v), dim=2)

    def reset(self) -> None:
        super().reset()
        self.seen, self.columns = 0, None

    def truncate(self, length: int) -> None:
        """As in Cache, as long as nothing was evicted, which would have to come back."""
        if self.columns is not None:
            raise CacheError(
                f"{self!r}.truncate({length}): of {self.seen} tokens some were evicted that the "
                "window would show again; decode with Cache where tokens are taken back"
            )
        super().truncate(length)
        self.seen = length

    def _check_room(self, new: int, q_len: int) -> None:
        if self.length is not None and self.seen + new > self.length:
            raise CacheError(
                f"{self!r} saw {self.seen} and was asked for {new} more: it was made for "
                f"length={self.length} at most"
            )

    def _with_new(self, columns: Tensor, new: int) -> Tensor:
        more = torch.arange(self.seen, self.seen + new, device=columns.device)
        return torch.cat((columns, more))

    def _check_masks(self, lowered: Lowered) -> None:
        rules = mask_rules(lowered.terms)
        widths = [rule.width for rule in rules if isinstance(rule, Window)]
        chunks = [rule.width for rule in rules if isinstance(rule, Chunk)]
        counts = [rule.count for rule in rules if isinstance(rule, Sink)]
        wide = self.window is not None and (not widths or min(widths) > self.window)
        # A key that is evicted with its chunk is seen by no later query, sink or not.
        beyond = self.chunk is not None and not any(self.chunk % width == 0 for width in chunks)
        sinks = max(counts, default=0)
        if wide or beyond or (widths and sinks > self.sinks):
            seen = f"a window of {min(widths)}" if widths else "every token"
            seen = f"a chunk of {min(chunks)}" if chunks and not widths else seen
            seen = f"{seen} and {sinks} sinks" if counts else seen
            masks = ", ".join(self._masks())
            remedy = f"give the masks too, [encoding, {masks}], or make the cache as large as they"
            if not wide and not beyond:
                remedy = f"make the cache with sinks={sinks}, as many as they"
            raise CacheError(f"{self!r} evicts all else, but these terms see {seen}: {remedy} are")

    def _masks(self) -> list[str]:
        """What is to be given beside an encoding."""
        masks = [] if self.chunk is None else [f"Chunked({self.chunk})"]
        if self.window is not None:
            masks.append(f"SlidingWindow({self.window})")
            masks += [f"Sinks({self.sinks})"] if self.sinks else []
        return masks

    def _needed(self, positions: Positions) -> Tensor | None:
        """Columns of the keys that a later query of any row can see; None: all of them."""
        count, device = positions.k_len, positions.device
        order = positions.orders()[1]
        keys = positions.keys
        counted = keys.order is None or positions.unit_step
        alike = order.ndim == 1 and keys.valid is None and keys.document is None
        # The newest stays in any case: rows count on from it, and payloads are folded into it.
        recent = None if self.window is None else max(self.window - 1, 1)
        # Then the first columns are the sinks, and no value need be read.
        if recent is not None and self.chunk is None and counted and alike:
            keep = kept(count, self.sinks, recent, device)
            return None if len(keep) == count else keep
        order = order.view(-1, count)
        real = torch.ones_like(order, dtype=torch.bool)
        if keys.valid is not None:
            order, real = torch.broadcast_tensors(order, keys.valid)
        # A row of padding alone has no token: the last column stands for it.
        told = real | ~real.any(dim=-1, keepdim=True)
        newest = (told * torch.arange(count, device=device)).argmax(-1, keepdim=True)
        if keys.document is not None:
            document = keys.document.view(-1, count).expand(order.shape)
            real = real & (document == document.gather(1, newest))
        last = torch.where(real, order, -1).amax(dim=-1, keepdim=True)
        needed = real
        if recent is not None:
            needed = needed & ((order < self.sinks) | (order > last - recent))
        if self.chunk is not None:
            needed = needed & (order // self.chunk == (last + 1) // self.chunk)
        needed = needed.scatter(1, newest, True)
        keep = needed.any(dim=0).nonzero()[:, 0]
        return None if len(keep) == count else keep


def _folded(payload: Tensor, keep: Tensor, valid: Tensor | None) -> Tensor:
    """The payload of the kept columns, each with that of the evicted ones right before it.

    In float64, because the sum of what a long stream has evicted sits in one column. What an
    evicted column of padding tells must not reach a real token, and what a real token tells must
    not sit in padding, which is not counted: it goes to the next kept column that is real.
    """
    count = payload.shape[-1]
    stays = torch.zeros(1, count, dtype=torch.bool, device=payload.device)
    stays = stays.index_fill(1, keep, True)
    if valid is not None:
        stays = stays & valid
        real = valid.view(valid.shape[0], *[1] * (payload.ndim - 2), count)
        payload = payload.masked_fill(~real, 0.0)
    columns = torch.arange(count, device=payload.device)
    # Behind the newest real token, which stays, there is but padding, which adds nothing.
    following = torch.where(stays, columns, keep[-1]).flip(-1).cummin(dim=-1).values.flip(-1)
    into = torch.searchsorted(keep, following)
    into = into.view(into.shape[0], *[1] * (payload.ndim - 2), count).expand(payload.shape)
    kept = payload.new_zeros((*payload.shape[:-1], len(keep)), dtype=torch.float64)
    return kept.scatter_add(-1, into, payload.double())
