"""The sums of linear attention: over all pairs at once, or carried from chunk to chunk.

Letters: b batch, g key heads, s query heads that share a key head, t tokens, tq queries, tk keys,
f features, d_v value dimension. Query head i is (i // s, i % s).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class LinearState:
    """All that later queries need of the tokens so far, in a size that does not grow with them.

    numerator    sum of turned phi(k) v; g is the number of query heads where each turns keys
    denominator  sum of phi(k)
    position     the coordinate of the next token; None after explicit coordinates
    document     the document that the sums are of; None where nothing is packed
    extent       the extent that angles were made for, where they depend on the length
    """

    numerator: Float[Tensor, "b g f d_v"]
    denominator: Float[Tensor, "b g f"]
    position: Int[Tensor, "#b"] | None = None
    document: Int[Tensor, "#b"] | None = None
    extent: int | None = None


torch.export.register_dataclass(LinearState, serialized_type_name="posenc.LinearState")

# Numerators and denominators of the output.
Sums = tuple[Float[Tensor, "b g s tq d_v"], Float[Tensor, "b g s tq"]]


@dataclass(frozen=True, eq=False)
class Features:
    """phi of queries and of keys, turned and not, and values."""

    rotated_q: Float[Tensor, "b g s tq f"]
    q: Float[Tensor, "b g s tq f"]
    rotated_k: Float[Tensor, "b g 1 tk f"]
    k: Float[Tensor, "b g 1 tk f"]
    v: Float[Tensor, "b g 1 tk d_v"]

    def map(self, of_queries: Callable, of_keys: Callable) -> "Features":
        queries, keys = (self.rotated_q, self.q), (self.rotated_k, self.k, self.v)
        return Features(*map(of_queries, queries), *map(of_keys, keys))

    def part(self, queries: slice, keys: slice) -> "Features":
        return self.map(lambda x: x[..., queries, :], lambda x: x[..., keys, :])

    def flip(self) -> "Features":
        return self.map(lambda x: x.flip(-2), lambda x: x.flip(-2))

    def empty(self) -> LinearState:
        """The state before the first token."""
        b, g, _, _, f = self.k.shape
        return LinearState(self.v.new_zeros(b, g, f, self.v.shape[-1]), self.k.new_zeros(b, g, f))


@dataclass(frozen=True, eq=False)
class Place:
    """The document of each key, and which are no padding; None where all are alike."""

    document: Int[Tensor, "#b tk"] | None = None
    valid: Bool[Tensor, "#b tk"] | None = None

    def part(self, keys: slice) -> "Place":
        return Place(*(None if x is None else x[:, keys] for x in (self.document, self.valid)))

    def last_document(self, held: Int[Tensor, "#b"] | None) -> Int[Tensor, "#b"]:
        """That of the last real key of each row; `held` where a row has none."""
        assert self.document is not None
        if self.valid is None:
            return self.document[:, -1]
        document, valid = torch.broadcast_tensors(self.document, self.valid)
        columns = torch.arange(valid.shape[1], device=valid.device)
        last = document.gather(1, (valid * columns).argmax(-1, keepdim=True))[:, 0]
        return last if held is None else torch.where(valid.any(-1), last, held)

    def flip(self) -> "Place":
        return Place(*(None if x is None else x.flip(-1) for x in (self.document, self.valid)))


def within(tokens: Features, visible: Bool[Tensor, "#b #tq tk"] | None) -> Sums:
    """The sums over visible keys, by weights (b, g, s, tq, tk)."""
    weights, plain = tokens.rotated_q @ tokens.rotated_k.mT, tokens.q @ tokens.k.mT
    if visible is not None:
        hidden = ~visible[:, None, None]
        weights, plain = weights.masked_fill(hidden, 0.0), plain.masked_fill(hidden, 0.0)
    return weights @ tokens.v, plain.sum(dim=-1)


def read(state: LinearState, tokens: Features, document: Int[Tensor, "#b tq"] | None) -> Sums:
    """The sums over what the state holds, for queries of these documents."""
    numerator = tokens.rotated_q @ state.numerator[:, :, None]
    denominator = (tokens.q @ state.denominator[:, :, None, :, None])[..., 0]
    if document is None or state.document is None:
        return numerator, denominator
    other = (document != state.document[:, None])[:, None, None]
    return numerator.masked_fill(other[..., None], 0.0), denominator.masked_fill(other, 0.0)


def absorb(state: LinearState, tokens: Features, place: Place) -> LinearState:
    """The state after these tokens: that of the last one's document alone."""
    turned, plain, kept, last = tokens.rotated_k, tokens.k, place.valid, state.document
    numerator, denominator = state.numerator, state.denominator
    if place.document is not None:
        last = place.last_document(state.document)
        same = place.document == last[:, None]
        kept = same if kept is None else kept & same
        if state.document is not None:
            other = (state.document != last)[:, None, None]
            numerator = numerator.masked_fill(other[..., None], 0.0)
            denominator = denominator.masked_fill(other, 0.0)
    if kept is not None:
        dropped = ~kept[:, None, None, :, None]
        turned, plain = turned.masked_fill(dropped, 0.0), plain.masked_fill(dropped, 0.0)
    return replace(
        state,
        numerator=numerator + (turned.mT @ tokens.v)[:, :, 0],
        denominator=denominator + plain[:, :, 0].sum(dim=-2),
        document=last,
    )


def scan(
    tokens: Features, place: Place, state: LinearState, chunk: int, strict: bool = False
) -> tuple[Sums, LinearState]:
    """Causal sums of queries, which are the last keys, chunk by chunk; then the state after all.

    strict leaves out the query's own token.
    """
    queries, keys = tokens.q.shape[-2], tokens.k.shape[-2]
    before = slice(0, keys - queries)
    if queries < keys:
        state = absorb(state, tokens.part(slice(0, 0), before), place.part(before))
    sums: list[Sums] = []
    for start in range(0, queries, chunk):
        stop = min(start + chunk, queries)
        own = slice(before.stop + start, before.stop + stop)
        part, where = tokens.part(slice(start, stop), own), place.part(own)
        inside = within(part, _causal(where, stop - start, strict, tokens.k.device))
        carried = read(state, part, where.document)
        sums.append((inside[0] + carried[0], inside[1] + carried[1]))
        state = absorb(state, part, where)
    numerators, denominators = zip(*sums, strict=True)
    return (torch.cat(numerators, dim=-2), torch.cat(denominators, dim=-1)), state


def both_ways(tokens: Features, place: Place, chunk: int) -> Sums:
    """Sums over the whole document of each token: a scan of the past, and one of the future."""
    (top, bottom), _ = scan(tokens, place, tokens.empty(), chunk)
    # Keys before the first query are in nobody's future.
    last = slice(tokens.k.shape[-2] - tokens.q.shape[-2], None)
    back = tokens.part(slice(None), last).flip()
    (later_top, later_bottom), _ = scan(
        back, place.part(last).flip(), back.empty(), chunk, strict=True
    )
    return top + later_top.flip(-2), bottom + later_bottom.flip(-1)


def divided(sums: Sums) -> Float[Tensor, "b g s tq d_v"]:
    """Numerator by denominator; zero, in the gradient too, where the denominator is zero."""
    numerator, denominator = sums
    nothing = (denominator == 0)[..., None]
    quotient = numerator / denominator[..., None].masked_fill(nothing, 1.0)
    return quotient.masked_fill(nothing, 0.0)


def _causal(
    place: Place, length: int, strict: bool, device: torch.device
) -> Bool[Tensor, "#b t t"]:
    whole = torch.ones(1, length, length, dtype=torch.bool, device=device)
    visible = whole.tril(-1 if strict else 0)
    if place.valid is not None:
        visible = visible & place.valid[:, None, :]
    if place.document is not None:
        visible = visible & (place.document[:, :, None] == place.document[:, None, :])
    return visible
