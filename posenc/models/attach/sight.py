"""What tokens see in one forward pass of a transformers model, in posenc's words.

Letters: b batch, h heads, tq queries, tk keys.
"""

import threading
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from posenc.encoding import Encoding
from posenc.errors import CacheError, PositionsError, UnsupportedError
from posenc.lowering import Lowered, Part, lower
from posenc.mask_rules import Chunk, Window
from posenc.positions import Positions
from posenc.positions.sequences import changes
from posenc.terms import DenseBias, Mask


@dataclass(eq=False)
class Given:
    """What the forward pass that runs was given beside its tokens.

    ids (1|b, tq) are its position_ids, (1|b, tq, axes) for images in text; documents (1|b, tq) a
    number for each packed document that they tell; before is how many tokens its cache holds;
    cache of_layer(number) gives posenc's own caches, where it has such.
    """

    ids: Tensor | None = None
    before: int | Tensor | None = None
    documents: Tensor | None = None
    cache: Any = None


class Passes:
    """What the forward passes that run were given, each in a thread of its own."""

    def __init__(self) -> None:
        self._last, self._threads = Given(), threading.local()

    def begin(self, given: Given) -> None:
        """A pass begins in this thread."""
        self._last = given
        if not torch.compiler.is_compiling():
            self._threads.given = given

    @property
    def given(self) -> Given:
        """Of the pass in this thread; of the last, where a backward pass computes in another."""
        if torch.compiler.is_compiling():
            return self._last
        return getattr(self._threads, "given", self._last)

    def __reduce__(self) -> tuple[Any, ...]:
        # Nothing of a pass goes into copies of the model.
        return Passes, ()


@dataclass(frozen=True, eq=False)
class Plan:
    """What posenc adds to the scores of a layer; layers of one number share their terms."""

    number: int = -1
    parts: tuple[Encoding, ...] = ()
    passes: Passes = field(default_factory=Passes)

    @property
    def learns(self) -> bool:
        """Whether gradients flow into its terms."""
        return any(x.requires_grad for part in self.parts for x in part.parameters())

    @property
    def reads_positions(self) -> bool:
        """Whether any of its encodings reads where tokens are."""
        return any(part.family != "none" for part in self.parts)


@dataclass(eq=False)
class Sight:
    """Who sees whom: made where transformers makes a mask, once per forward, read by every layer.

    positions are those of slots of the cache. window and chunk are widths. seen (b, 1|h, tq, tk)
    says pair by pair who sees whom, for masks that no rule describes; numbers are added to the
    scores. held: a cache has dropped tokens, and positions count from the first that it holds.
    counted: position_ids were found to count on from what posenc's caches hold. ndim and shape let
    a sight pass for a mask of four dimensions, which transformers hands on as it is.
    """

    positions: Positions
    window: int | None = None
    chunk: int | None = None
    seen: Tensor | None = None
    held: bool = False
    counted: bool = False
    _padded: dict[int, bool] = field(default_factory=dict)
    _lowered: dict[tuple[int, torch.dtype], Lowered] = field(default_factory=dict)
    _given: Given | None = None
    _pairs: DenseBias | None = None

    ndim = 4

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(1|b, 1, tq, tk)."""
        return self.positions.batch, 1, self.positions.q_len, self.positions.k_len

    def contiguous(self) -> "Sight":
        """Itself, as `generate` asks of every mask that it prepares."""
        return self

    def to(self, *args: object, **told: object) -> "Sight":
        """Itself: it lies where its tokens do, and MPT's code asks every mask for booleans."""
        return self

    def __radd__(self, scores: object) -> NoReturn:
        """Refused: the code of a model that adds a mask to its scores is not posenc's attention."""
        raise UnsupportedError(
            "attn_implementation='posenc' in a model whose code adds masks to scores by itself, "
            "and does not ask transformers' AttentionInterface: give it 'eager' or 'sdpa' again"
        )

    @property
    def dtype(self) -> NoReturn:
        """Refused, as reading a part is: Doge's code asks before it writes into a mask."""
        self[...]

    def __getitem__(self, part: object) -> NoReturn:
        """Refused: the code of a model that reads a mask (DeepSeek-V3.2) has no rules to read."""
        raise UnsupportedError(
            "attn_implementation='posenc' in a model whose code reads masks pair by pair, where "
            "posenc has rules: give it 'eager' or 'sdpa' again"
        )

    def lowered(self, plan: Plan, dtype: torch.dtype) -> Lowered:
        """The terms of a plan and of the mask, made once for all layers of the plan."""
        if self._given is None:
            # A checkpointed layer may be computed again after another forward pass.
            self._given = plan.passes.given
        # A checkpointed layer is computed again, and must then save what it saved before.
        if torch.is_grad_enabled() and plan.learns:
            return self._lower(plan, dtype)
        key = plan.number, dtype
        if key not in self._lowered:
            self._lowered[key] = self._lower(plan, dtype)
        return self._lowered[key]

    def padded_as(self, before: Tensor | None) -> bool:
        """Whether its mask tells of no other padding than `before` (1|b, slots), and of none since.

        Read once for all layers that were told the same, for a GPU is waited for.
        """
        valid = self.positions.keys.valid
        if valid is None or torch.compiler.is_compiling():
            return True
        if (key := id(before)) not in self._padded:
            told = 0 if before is None else before.shape[-1]
            alike = before is None or torch.equal(valid[:, :told], before)
            self._padded[key] = alike and bool(valid[:, told:].all())
        return self._padded[key]

    def placed(self, plan: Plan) -> Positions:
        """The tokens where the encodings of a plan read them."""
        positions, given = self.positions, self._given or plan.passes.given
        if given.documents is not None:
            positions = _apart(positions, given.documents)
        if self.held and not all(part.tags.translation_invariant for part in plan.parts):
            positions = _in_sequence(positions)
        if given.ids is not None and plan.reads_positions:
            positions = placed_at(positions, given.ids)
        return positions

    def _lower(self, plan: Plan, dtype: torch.dtype) -> Lowered:
        placed = self.placed(plan)
        try:
            lowered = lower([*plan.parts, *self.mask()], placed, dtype=dtype)
        except PositionsError as error:
            if placed.queries.position.ndim < 3:
                raise
            raise PositionsError(
                f"attach: {plan.parts} where the model's position_ids have "
                f"{placed.queries.position.shape[-1]} axes, as of images in text: {error}; give an "
                "encoding that reads them, MRoPE or ALiBi(heads, axes=3), or text without images"
            ) from error
        # A mask of pairs hides what is dropped, sink or not.
        if self.held and self.seen is None and lowered.form.visibility.sinks:
            raise CacheError(
                f"{plan.parts} let the first tokens be seen for ever, and the model's cache drops "
                f"what lies {self.window or self.chunk} tokens back: give one that keeps them, "
                "transformers.DynamicCache() without a configuration or "
                "posenc.models.attach.caches.PosencCache, or use_cache=False"
            )
        return lowered

    def mask(self) -> list[Part]:
        """What hides pairs beside causality, documents and padding."""
        rules: list[Part] = [] if self.window is None else [Mask(Window(self.window))]
        if self.chunk is not None:
            rules.append(Mask(Chunk(self.chunk)))
        pairs = self.pairs
        return rules if pairs is None else [*rules, pairs]

    @property
    def pairs(self) -> DenseBias | None:
        """What is added to the score of each pair, -inf where it is hidden; one for all layers."""
        bias = self.seen
        if bias is not None and self._pairs is None:
            if bias.dtype == torch.bool:
                bias = torch.zeros_like(bias, dtype=torch.float32).masked_fill(~bias, -torch.inf)
            self._pairs = DenseBias(bias)
        return self._pairs


# Below what any position_ids and slots lie apart.
_LEAST = -(2**62)


def _apart(positions: Positions, documents: Tensor) -> Positions:
    """The same tokens where those of different documents (b, t) do not see each other.

    As they are where the tokens are others than those of `documents`, and where all see all.
    """
    same = positions.q_len == positions.k_len == documents.shape[1]
    if not same or not positions.causal:
        return positions
    told = positions.keys.document
    if told is not None:
        # Chunks, or the same documents: one begins where either does.
        both = torch.broadcast_tensors(told, documents)
        documents = torch.stack([changes(x) for x in both]).any(0).cumsum(-1)
    if positions.keys.valid is None:
        # What counts from the first token, sinks and chunks, counts from that of each.
        return Positions.build(causal=True, documents=documents)
    held = positions.ordered()
    queries, keys = (replace(side, document=documents) for side in (held.queries, held.keys))
    return replace(held, queries=queries, keys=keys)


def _in_sequence(positions: Positions) -> Positions:
    """The same tokens at their places in the whole sequence, not among those that are held."""
    orders = positions.orders()
    queries, keys = (
        replace(side, position=order.clamp(min=0))
        for side, order in zip((positions.queries, positions.keys), orders, strict=True)
    )
    if torch.compiler.is_compiling():
        # Nothing static bounds them there.
        return replace(positions, queries=queries, keys=keys, unit_step=False)
    extent = int(torch.stack([x.amax() for x in orders]).amax()) + 1
    return replace(positions, queries=queries, keys=keys, extent=extent)


def placed_at(positions: Positions, ids: Tensor) -> Positions:
    """The positions of slots where ids count as these do, else the same tokens at the ids.

    Where they stood is forgotten of cached tokens, which must be counted one by one.
    """
    whole = positions.q_len == positions.k_len
    if torch.compiler.is_compiling():
        return positions.at(ids) if whole else positions
    order = positions.orders()[0]
    # Nobody reads where padding stands, before a sequence or behind it.
    real = order >= 0
    if whole and positions.keys.valid is not None:
        real = real & positions.keys.valid
    if ids.ndim == 3:
        order, real = order[..., None], real[..., None]
    apart = ids - order
    if whole:
        # That of any token is as good as another's: only distances are read.
        apart = apart - apart.masked_fill(~real, _LEAST).amax(1, keepdim=True)
    if not bool((apart * real).any()):
        return positions
    if whole:
        return positions.at(ids)
    raise PositionsError(
        f"position_ids {ids.tolist()}, where tokens of a cache are counted to be at "
        f"{order.tolist()}: an encoding that reads distances in attention needs cached tokens to "
        "be counted one by one; leave position_ids away, or the cache"
    )
