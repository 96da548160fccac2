"""Where the tokens are: coordinates, order, documents and padding of queries and keys.

Letters: b batch, tq queries, tk keys; `1|b` broadcasts over the batch.
A *position* is the coordinate an encoding reads; *order* is the index of a token in its own
sequence, which causality, windows and sinks read. Distance is always k_position - q_position.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posenc.errors import PositionsError, shown
from posenc.positions.at import at
from posenc.positions.build import build
from posenc.positions.graph import graph
from posenc.positions.grid import grid
from posenc.positions.mrope import mrope
from posenc.positions.planes import planes
from posenc.positions.random import random
from posenc.positions.rolling import rolling
from posenc.positions.shard import shard_positions, unshard_positions, with_keys
from posenc.positions.skipping import skipping
from posenc.positions.static import static
from posenc.positions.tokens import (
    Tokens,
    bare,
    check_sizes,
    more_queries,
    one_axis,
    reading_values,
    unfitting,
)
from posenc.positions.tree import tree
from posenc.positions.varlen import varlen
from posenc.positions.visible import pairs, visible
from posenc.positions.xdrope import xdrope
from posenc.torch_modes import kept


@dataclass(frozen=True, eq=False)
class Positions:
    """Coordinates and visibility of tq queries and tk keys.

    Made from both sides, as in cross-attention, or by a constructor named after what is at hand:

    build       numbers of tokens, a mask, packed documents, position_ids
    varlen      cumulative lengths of queries and of keys
    static      a cache of fixed size
    rolling     a cache that keeps the last tokens, and sinks
    grid        the patches of an image or a video
    graph       the nodes of a graph
    tree        the nodes of a tree
    mrope       text with images, videos and sound
    xdrope      the same for HunYuan-VL: counts, columns, rows and images
    random      training for longer inputs: a random subset of their positions
    skipping    the same with chunks that skip ahead

    queries, keys  both sides, as `Tokens`; what is padding is told by the keys
    causal         a query sees no key of a higher order
    extent         a bound on position + 1, where it is not the number of keys
    unit_step      for every visible pair k - q equals k_order - q_order; fast paths ask this
    start          the position of the first token of each sequence, as far as they are counted

    Example: `Positions(Tokens(torch.arange(3)), Tokens(torch.arange(5)))`, cross-attention.

    Raises PositionsError for what is no `Tokens`, for documents of one side alone, and for more
    causal queries than keys where nothing tells their order.
    """

    queries: Tokens
    keys: Tokens
    causal: bool = False
    extent: int | None = None
    unit_step: bool = False
    start: int = 0

    build = classmethod(build)
    varlen = classmethod(varlen)
    static = classmethod(static)
    rolling = classmethod(rolling)
    grid = classmethod(grid)
    graph = classmethod(graph)
    tree = classmethod(tree)
    mrope = classmethod(mrope)
    xdrope = classmethod(xdrope)
    random = classmethod(random)
    skipping = classmethod(skipping)
    shard = shard_positions
    unshard = classmethod(unshard_positions)
    with_keys = with_keys
    at = at
    planes = planes
    visible = visible

    def __post_init__(self) -> None:
        for name, side in (("queries", self.queries), ("keys", self.keys)):
            if not isinstance(side, Tokens):
                raise PositionsError(
                    f"Positions({name}=...) is a {type(side).__name__}: give Tokens(position, ...)"
                )
        # No more than this: torch.export puts a thing of its own in the place of a bool.
        if isinstance(self.causal, str):
            raise PositionsError(f"causal={self.causal!r}: causal is True or False")
        if (self.queries.document is None) != (self.keys.document is None):
            raise PositionsError(
                "Positions(queries, keys): the document of one side is missing, so nobody's "
                "document could be told; give both"
            )
        if self.causal:
            self.check_ordered()

    @kept
    def q_len(self) -> int:
        return self.queries.count

    @kept
    def k_len(self) -> int:
        return self.keys.count

    @kept
    def batch(self) -> int:
        """How many rows these positions tell apart; 1 where they hold for every row."""
        return max(self.queries.batch, self.keys.batch)

    @property
    def device(self) -> torch.device:
        return self.keys.position.device

    @kept
    def bound(self) -> int | None:
        """A bound on position + 1, or None where nothing static is known."""
        if self.extent is not None:
            return self.extent
        return self.k_len if self.unit_step else None

    @kept
    def reach(self) -> tuple[int, int] | None:
        """The farthest distances of pairs, behind and ahead, or None where no bound is known."""
        bound = self.bound
        if bound is None:
            return None
        # Behind the last queries there is no key: a token that is decoded has none ahead.
        counted = self.unit_step and self.in_order
        return bound - 1, self.q_len - 1 if counted else bound - 1

    @property
    def in_order(self) -> bool:
        """Keys count from 0, queries are the last of them, nothing is padded or packed."""
        keys = self.keys
        return self.queries.order is keys.order is keys.document is keys.valid is None

    @property
    def padded(self) -> bool:
        """Whether padding is told of, among queries or keys."""
        return self.queries.valid is not None or self.keys.valid is not None

    @kept
    def aligned(self) -> bool:
        """Whether k_order - q_order rises by one per key and falls by one per query, as far as
        they are of one document; a graph does not know it of orders that are told.

        `build` tells it of packed documents; of others values are read, and a GPU waited for, once.
        """
        shift = self.k_len - self.q_len
        if self.in_order:
            return shift >= 0
        if shift < 0 or not reading_values():
            return False
        q, k = self.orders()
        if not torch.equal(*torch.broadcast_tensors(q, k[..., shift:])):
            return False
        ahead = k - torch.arange(self.k_len, device=k.device)
        own, documents = self.queries.document, self.keys.document
        if own is None or documents is None:
            return bool((ahead.diff() == 0).all())
        if not torch.equal(*torch.broadcast_tensors(own, documents[..., shift:])):
            return False
        ahead, documents = torch.broadcast_tensors(ahead, documents)
        # A rank's part may have another document between two parts of one.
        documents, columns = documents.sort(stable=True)
        return bool(((ahead.gather(-1, columns).diff() == 0) | (documents.diff() != 0)).all())

    def distance(self) -> Tensor:
        """k - q, as (1|b, 1, tq, tk); for one coordinate only."""
        q, k = self.one_axis("a distance")
        return pairs(k, q)

    def one_axis(self, reader: str) -> tuple[Tensor, Tensor]:
        """The one coordinate of queries and of keys; PositionsError where there are several."""
        return one_axis(self.queries.position, reader), one_axis(self.keys.position, reader)

    def order_distance(self) -> Tensor:
        """k_order - q_order, as (1|b, 1, tq, tk)."""
        return pairs(*reversed(self.orders()))

    def check_ordered(self) -> None:
        """Raise PositionsError for more queries than keys, whose order nothing tells."""
        if self.queries.order is None and self.q_len > self.k_len:
            raise PositionsError(more_queries(self.q_len, self.k_len))

    def orders(self) -> tuple[Tensor, Tensor]:
        """The orders of queries and keys, made where they are the default."""
        self.check_ordered()
        order = torch.arange(self.k_len, device=self.device)
        q = self.queries.order
        q = order[self.k_len - self.q_len :] if q is None else q
        return q, order if self.keys.order is None else self.keys.order

    def ordered(self) -> "Positions":
        """The same positions, with orders where they were counted, for any part to be taken."""
        told = self.queries.order is not None and self.keys.order is not None
        if told and self.extent == self.bound:
            return self
        q, k = self.orders()
        return replace(
            self,
            queries=replace(self.queries, order=q),
            keys=replace(self.keys, order=k),
            extent=self.bound,
        )

    def lengths(self) -> tuple[Tensor, Tensor]:
        """How far the own sequence of each query and key reaches, int64 (1|b, 1|t).

        What encodings depend on that scale with the length of their input. An extent that was
        asked for stands in for all of them, so that tokens to come do not change the past.
        """
        q, k = self.queries.length, self.keys.length
        if q is None or k is None:
            if self.bound is None:
                raise PositionsError(
                    "the length of the input is not known: instead of a bare tensor pass "
                    "Positions.build(ids=...), of two sides Positions(queries, keys, extent=N)"
                )
            whole = torch.full((1, 1), self.bound, device=self.device)
            return whole, whole
        return q.view(-1, self.q_len), k.view(-1, self.k_len)

    def with_extent(self, extent: int) -> "Positions":
        """The same positions with a bound that covers at least `extent`, for every row alike."""
        extent = max(extent, self.extent or 0)
        if extent == self.extent and self.queries.length is None and self.keys.length is None:
            return self
        queries, keys = (
            side if side.length is None else replace(side, length=None)
            for side in (self.queries, self.keys)
        )
        return replace(self, queries=queries, keys=keys, extent=extent)


torch.export.register_dataclass(Positions, serialized_type_name="posenc.Positions")


def as_positions(
    positions: Positions | Tensor | None,
    q_len: int,
    k_len: int | None = None,
    *,
    causal: bool | None = None,
    device: torch.device | None = None,
) -> Positions:
    """What a user gave as `positions`, as Positions that fit q_len queries and k_len keys.

    None: the queries are the last q_len of the k_len tokens (torch's is_causal aligns the first).
    A tensor: finite coordinates of the keys, as they are, with no known bound.
    """
    k_len = q_len if k_len is None else k_len
    if positions is None:
        check_sizes("Positions.build", q_len, k_len)
        queries = keys = Tokens(torch.arange(k_len, device=device))
        if q_len != k_len:
            # No slice, which would bind a graph to its length.
            queries = Tokens(torch.arange(k_len - q_len, k_len, device=device))
        return Positions(queries, keys, False if causal is None else causal, unit_step=True)
    if isinstance(positions, Tensor):
        check_sizes("Positions.build", q_len, k_len)
        keys = Tokens(bare(positions))
        queries = keys if q_len == k_len else keys[k_len - q_len :]
        positions = Positions(queries, keys, False if causal is None else causal)
    else:
        positions = checked(positions, causal)
    if positions.q_len != q_len or positions.k_len != k_len:
        raise PositionsError(unfitting(q_len, k_len, positions.queries, positions.keys))
    return positions


def checked(positions: Positions | None, causal: bool | None) -> Positions:
    """Raise PositionsError for what is none, and for positions that were built otherwise."""
    if not isinstance(positions, Positions):
        raise PositionsError(
            f"positions={shown(positions)}: give Positions, or a tensor of the keys' coordinates"
        )
    if causal is not None and causal != positions.causal:
        raise PositionsError(
            f"causal={causal}, but the positions were built with causal={positions.causal}: "
            "leave causal away, or build them alike"
        )
    return positions
