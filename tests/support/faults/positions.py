"""Faults in positions: order, documents, padding, and who sees whom."""

import posenc as pe
from tests.support.faults.examples import alibi, rope, shaw, sinusoid
from tests.support.faults.fault import Fault

FAULTS = [
    Fault(
        "distance with the opposite sign",
        "posenc.positions.positions:Positions.distance",
        "return _pairs(k, q)",
        "return -_pairs(k, q)",
        shaw,
        "check_reference_scores",
    ),
    Fault(
        "fewer queries taken for the first keys",
        "posenc.positions.tokens:Tokens.last",
        "self[self.count - count :]",
        "self[:count]",
        rope,
        "check_short_queries",
    ),
    Fault(
        "sinks by buffer index",
        "posenc.positions.positions:Positions.visible",
        "k_order = self.orders()[1]",
        "k_order = torch.arange(self.k_len)",
        rope,
        "check_masks",
    ),
    Fault(
        "window one too wide",
        "posenc.positions.positions:Positions.visible",
        "< min(windows)",
        "<= min(windows)",
        rope,
        "check_masks",
    ),
    Fault(
        "the widest of two windows",
        "posenc.positions.positions:Positions.visible",
        "< min(windows)",
        "< max(windows)",
        alibi,
        "check_masks",
    ),
    Fault(
        "causality by position value",
        "posenc.positions.positions:Positions.visible",
        "past = self.order_distance() <= 0",
        "past = self.distance() <= 0",
        rope,
        "check_reference_visible",
    ),
    Fault(
        "padding seen",
        "posenc.positions.positions:Positions.visible",
        "if self.keys.valid is not None:",
        "if False:",
        rope,
        "check_backends",
    ),
    Fault(
        "left padding counted as tokens",
        "posenc.positions.from_mask:from_mask",
        "order = valid.long()",
        "order = (valid | True).long()",
        sinusoid,
        "check_padding",
    ),
    Fault(
        "other documents seen",
        "posenc.positions.positions:Positions.visible",
        "if self.queries.document is not None and self.keys.document is not None:",
        "if False:",
        rope,
        "check_backends",
    ),
    Fault(
        "positions run on through packed documents",
        "posenc.positions.from_documents:order_between",
        "stairs(cu[1:], -cu.diff(), count)",
        "torch.zeros(count, dtype=torch.int64)",
        sinusoid,
        "check_packed",
        alone=True,
    ),
    Fault(
        "a window of coordinates",
        "posenc.positions:Positions.visible",
        "step = self.order_distance()",
        "step = self.distance()",
        lambda: pe.SlidingWindow(3),
        "check_reference_visible",
    ),
]
