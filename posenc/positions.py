"""Where the tokens are: coordinates, order, documents and padding of queries and keys.

Letters: b batch, tq queries, tk keys; `1|b` broadcasts over the batch.
A *position* is the coordinate an encoding reads; *order* is the index of a token in its own
sequence, which causality, windows and sinks read. Distance is always k_position - q_position.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posenc.arrangements.explicit import whole_or_double
from posenc.arrangements.tokens import Tokens, more_queries, reading_values
from posenc.builder import Builder
from posenc.errors import PositionsError
from posenc.terms import MaskRule, Prefix, Sink, Window

_ARRANGED = ("q_order", "k_order", "q_document", "k_document", "k_valid")
_PER_TOKEN = (*_ARRANGED, "q_length", "k_length")


@dataclass(frozen=True, eq=False)
class Positions(Builder):
    """Coordinates and visibility of tq queries and tk keys.

    Made by `Positions.build` from what is at hand; see `posenc.builder` for all the ways.

    q, k            (t,), (b, t) or (b, t, axes); int64 or float64
    q_order, k_order  int64 (t,) or (b, t); None: keys count from 0, queries are the last tq of them
    q_document, k_document  int64 (t,) or (b, t): only tokens of one document see each other
    k_valid         bool (b, tk): False marks padding
    q_length, k_length  int64 (t,) or (b, t): how far the own sequence of each token reaches
    extent          a bound on position + 1, where it is not the number of keys
    unit_step       for every visible pair k - q equals k_order - q_order; fast paths ask this
    causal          a query sees no key of a higher order

    Raises PositionsError for wrong dtypes and shapes. Values are checked in `build`, once.
    """

    q: Tensor
    k: Tensor
    q_order: Tensor | None = None
    k_order: Tensor | None = None
    q_document: Tensor | None = None
    k_document: Tensor | None = None
    k_valid: Tensor | None = None
    q_length: Tensor | None = None
    k_length: Tensor | None = None
    extent: int | None = None
    unit_step: bool = False
    causal: bool = False

    def __post_init__(self) -> None:
        for name, value in (("q", self.q), ("k", self.k)):
            if value.dtype not in (torch.int64, torch.float64):
                raise PositionsError(
                    f"Positions({name}=...) has dtype {value.dtype}: positions are int64 or "
                    "float64, never the activations' dtype; convert with .long() or .double()"
                )
            if not 1 <= value.ndim <= 3:
                raise PositionsError(
                    f"Positions({name}=...) has shape {tuple(value.shape)}: "
                    "(t,), (b, t) or (b, t, axes) is needed"
                )
        lengths = {"q": self.q_len, "k": self.k_len}
        for name in _PER_TOKEN:
            value = getattr(self, name)
            if value is None:
                continue
            length, dtype = lengths[name[0]], torch.bool if name == "k_valid" else torch.int64
            dims = (2,) if name == "k_valid" else (1, 2)
            if value.ndim not in dims or value.shape[-1] != length or value.dtype != dtype:
                shapes = " or ".join(("(t,)", "(b, t)")[dim - 1] for dim in dims)
                raise PositionsError(
                    f"Positions({name}=...) has shape {tuple(value.shape)} and {value.dtype}, "
                    f"but there are {length} {'queries' if name[0] == 'q' else 'keys'}: "
                    f"{shapes} of {dtype} is needed"
                )
        if (self.q_document is None) != (self.k_document is None):
            raise PositionsError(
                "Positions(q_document=..., k_document=...): one of them is missing, so nobody's "
                "document could be told; give both"
            )
        if self.q_len > self.k_len and self.causal and self.q_order is None:
            raise PositionsError(more_queries(self.q_len, self.k_len))

    @property
    def q_len(self) -> int:
        return self.q.shape[0] if self.q.ndim == 1 else self.q.shape[1]

    @property
    def k_len(self) -> int:
        return self.k.shape[0] if self.k.ndim == 1 else self.k.shape[1]

    @property
    def batch(self) -> int:
        """How many rows these positions tell apart; 1 where they hold for every row."""
        tensors = (getattr(self, name) for name in ("q", "k", *_PER_TOKEN))
        return max(t.shape[0] if t is not None and t.ndim > 1 else 1 for t in tensors)

    @property
    def bound(self) -> int | None:
        """A bound on position + 1, or None where nothing static is known."""
        if self.extent is not None:
            return self.extent
        return self.k_len if self.unit_step else None

    @property
    def in_order(self) -> bool:
        """Keys count from 0, queries are the last of them, nothing is padded or packed."""
        return all(getattr(self, name) is None for name in _ARRANGED)

    @classmethod
    def of(
        cls,
        queries: Tokens,
        keys: Tokens,
        k_valid: Tensor | None = None,
        *,
        extent: int | None = None,
        unit_step: bool = True,
        causal: bool = False,
    ) -> "Positions":
        return cls(
            queries.at,
            keys.at,
            queries.order,
            keys.order,
            queries.document,
            keys.document,
            k_valid,
            queries.length,
            keys.length,
            extent,
            unit_step,
            causal,
        )

    def distance(self) -> Tensor:
        """k - q, as (1|b, 1, tq, tk); for one coordinate only."""
        q, k = one_axis(self.q, "a distance"), one_axis(self.k, "a distance")
        return _pairs(k, q)

    def order_distance(self) -> Tensor:
        """k_order - q_order, as (1|b, 1, tq, tk)."""
        if self.q_order is None and self.q_len > self.k_len:
            raise PositionsError(more_queries(self.q_len, self.k_len))
        return _pairs(*reversed(self.orders()))

    def orders(self) -> tuple[Tensor, Tensor]:
        """The orders of queries and keys, made where they are the default."""
        order = torch.arange(self.k_len, device=self.k.device)
        q = order[self.k_len - self.q_len :] if self.q_order is None else self.q_order
        return q, order if self.k_order is None else self.k_order

    def lengths(self) -> tuple[Tensor, Tensor]:
        """How far the own sequence of each query and key reaches, int64 (1|b, 1|t).

        What encodings depend on that scale with the length of their input. An extent that was
        asked for stands in for all of them, so that tokens to come do not change the past.
        """
        if self.q_length is None or self.k_length is None:
            if self.bound is None:
                raise PositionsError(
                    "the length of the input is not known from a bare tensor: pass "
                    "Positions.build(ids=...), or Positions.build(ids=..., extent=...)"
                )
            whole = torch.full((1, 1), self.bound, device=self.k.device)
            return whole, whole
        return self.q_length.view(-1, self.q_len), self.k_length.view(-1, self.k_len)

    def visible(self, rules: Sequence[MaskRule] = ()) -> Tensor | None:
        """Who sees whom, bool (1|b, 1, 1|tq, tk); None where everyone sees everyone.

            visible = valid and same document and (causal order or in the prefix)
                      and (in the narrowest window or a sink)

        Rules read order, never coordinates: tied or permuted coordinates open no future.
        """
        windows = [rule.width for rule in rules if isinstance(rule, Window)]
        sinks = [rule.count for rule in rules if isinstance(rule, Sink)]
        prefixes = [rule.count for rule in rules if isinstance(rule, Prefix)]
        k_order = self.orders()[1]
        k_order = k_order.view(-1, 1, 1, self.k_len)
        parts: list[Tensor] = []
        if self.causal and not (self.in_order and self.q_len == 1):
            past = self.order_distance() <= 0
            parts.append(past | (k_order < max(prefixes)) if prefixes else past)
        if windows:
            step = self.order_distance()
            near = step.abs() < min(windows)
            parts.append(near | (k_order < max(sinks)) if sinks else near)
        if self.q_document is not None and self.k_document is not None:
            parts.append(_pairs(self.k_document, self.q_document) == 0)
        if self.k_valid is not None:
            parts.append(self.k_valid[:, None, None, :])
        if not parts:
            return None
        visible = parts[0]
        for part in parts[1:]:
            visible = visible & part
        return visible

    def with_extent(self, extent: int) -> "Positions":
        """The same positions with a bound that covers at least `extent`, for every row alike."""
        extent = max(extent, self.extent or 0)
        return replace(self, extent=extent, q_length=None, k_length=None)


torch.export.register_dataclass(Positions, serialized_type_name="posenc.Positions")


@dataclass(frozen=True, eq=False)
class Documents:
    """Packed documents as one item of a list: attend(q, k, v, [rope, Documents(ids)]).

    ids  (k_len,) or (b, k_len), as in `Positions.build(documents=...)`, which it stands for:
         positions restart in each document, and no token sees another document
    """

    ids: Tensor

    def place(self, positions: Positions) -> Positions:
        plain = positions.in_order and positions.unit_step
        if not plain or (reading_values() and bool((positions.k[..., 0] != 0).any())):
            raise PositionsError(
                "Documents(ids) packs plain positions, but these are padded, packed or explicit "
                "already: build them whole with Positions.build(documents=..., ...)"
            )
        return Positions.build(
            positions.q_len,
            positions.k_len,
            causal=positions.causal,
            documents=self.ids,
            extent=positions.extent,
        )


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
    A tensor: coordinates of the keys, as they are, with no known bound.
    """
    k_len = q_len if k_len is None else k_len
    if positions is None:
        return Positions.build(q_len, k_len, causal=bool(causal), device=device)
    if isinstance(positions, Tensor):
        k = whole_or_double(positions)
        q = k[k_len - q_len :] if k.ndim == 1 else k[:, k_len - q_len :]
        positions = Positions(q=q, k=k, causal=bool(causal))
    elif causal is not None and causal != positions.causal:
        raise PositionsError(
            f"causal={causal}, but the positions were built with causal={positions.causal}: "
            "leave causal away, or build them alike"
        )
    if positions.q_len != q_len or positions.k_len != k_len:
        raise PositionsError(
            f"{q_len} queries and {k_len} keys, but positions for {positions.q_len} queries "
            f"and {positions.k_len} keys"
        )
    return positions


def one_axis(coordinates: Tensor, reader: str) -> Tensor:
    """The coordinates (t,) or (b, t), or an error where there are several axes."""
    if coordinates.ndim == 3:
        raise PositionsError(
            f"{reader} reads one coordinate per token, but the positions have shape "
            f"{tuple(coordinates.shape)}, (b, t, axes): give one axis"
        )
    return coordinates


def _pairs(k: Tensor, q: Tensor) -> Tensor:
    k, q = k.view(-1, 1, 1, k.shape[-1]), q.view(-1, 1, q.shape[-1], 1)
    return k - q
