"""Who sees whom: causality, documents, padding, and the rules of masks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from posenc.mask_rules import Chunk, MaskRule, Prefix, Sink, Window

if TYPE_CHECKING:
    from posenc.positions.positions import Positions


def visible(self: "Positions", rules: Sequence[MaskRule] = ()) -> Tensor | None:
    """Who sees whom, bool (1|b, 1, 1|tq, tk); None where everyone sees everyone.

        visible = valid and same document and same chunk
                  and (causal order or in the prefix) and (in the narrowest window or a sink)

    Rules read order, never coordinates: tied or permuted coordinates open no future.
    """
    if not rules and self.in_order and (not self.causal or self.q_len == 1):
        return None
    windows = [rule.width for rule in rules if isinstance(rule, Window)]
    # Orders may be negative: below a count of 0 is nobody, for there is no sink and no prefix.
    sinks = [rule.count for rule in rules if isinstance(rule, Sink) and rule.count]
    prefixes = [rule.count for rule in rules if isinstance(rule, Prefix) and rule.count]
    chunks = [rule.width for rule in rules if isinstance(rule, Chunk)]

    def first(count: int) -> Tensor:
        """The keys of an order below this, (1|b, 1, 1, tk)."""
        return self.orders()[1].view(-1, 1, 1, self.k_len) < count

    parts: list[Tensor] = []
    if self.causal and not (self.in_order and self.q_len == 1):
        past = self.order_distance() <= 0
        parts.append(past | first(max(prefixes)) if prefixes else past)
    if windows:
        step = self.order_distance()
        near = step.abs() < min(windows)
        parts.append(near | first(max(sinks)) if sinks else near)
    for width in chunks:
        q, k = self.ordered().orders()
        parts.append(pairs(k // width, q // width) == 0)
    if self.queries.document is not None and self.keys.document is not None:
        parts.append(pairs(self.keys.document, self.queries.document) == 0)
    if self.keys.valid is not None:
        parts.append(self.keys.valid[:, None, None, :])
    if not parts:
        return None
    seen = parts[0]
    for part in parts[1:]:
        seen = seen & part
    return seen


def pairs(k: Tensor, q: Tensor) -> Tensor:
    """k - q of every pair, (1|b, 1, tq, tk)."""
    k, q = k.view(-1, 1, 1, k.shape[-1]), q.view(-1, 1, q.shape[-1], 1)
    return k - q
