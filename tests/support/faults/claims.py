"""Faults that one check alone is there for, and faults of what no number of one call shows."""

import posenc as pe
from tests.support.faults.examples import alibi
from tests.support.faults.fault import Fault

CLAIMS = [
    Fault(
        "a window of coordinates",
        "posenc.positions:Positions.visible",
        "step = self.order_distance()",
        "step = self.distance()",
        lambda: pe.SlidingWindow(3),
        "check_reference_visible",
    ),
    Fault(
        "a prefix ignored",
        "posenc.positions:Positions.visible",
        "past | (k_order < max(prefixes)) if prefixes else past",
        "past",
        alibi,
        "check_masks",
    ),
    Fault(
        "the base of the latest instance",
        "posenc.encodings.rotary:Rotary.__init__",
        "self.base, self.rotary_dim, self.head_dim = base, rotary_dim, dim",
        "type(self).base = base; self.rotary_dim, self.head_dim = rotary_dim, dim",
        lambda: pe.Rotary(16, base=500.0),
        "check_instances_share_nothing",
    ),
    Fault(
        "a window wider than its encoding says",
        "posenc.encodings.sliding_window:SlidingWindow.lower",
        "Window(self.width)",
        "Window(self.width + 1)",
        lambda: pe.SlidingWindow(3),
        "check_reference_visible",
    ),
    Fault(
        "the sinks of a Lambda-shaped mask forgotten",
        "posenc.encodings.lm_infinite:LMInfinite.lower",
        ", Mask(Sink(self.sinks))",
        "",
        lambda: pe.LMInfinite(16, window=4, sinks=2),
        "check_reference_visible",
    ),
    Fault(
        "one sink too few",
        "posenc.encodings.sinks:Sinks.lower",
        "Mask(Sink(self.count))",
        "Mask(Sink(self.count - 1))",
        lambda: pe.Sinks(2, window=2, rotary=pe.Rotary(16)),
        "check_reference_visible",
    ),
]
