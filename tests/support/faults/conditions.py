"""Faults that show under one condition alone: a bias that is steeper there."""

from tests.support.faults.examples import alibi
from tests.support.faults.fault import Fault

RETURNED = "return (Slope(past, future, self.inside),)"
CONDITIONS = {
    "a start": ("positions.start", "check_reference_scores"),
    "more queries than keys": ("positions.k_len < positions.q_len", "check_reference_scores"),
    "as many keys of others": (
        "positions.keys is not positions.queries and positions.k_len == positions.q_len",
        "check_reference_scores",
    ),
    "more than 300 keys": ("positions.k_len > 300", "check_reference_scores"),
    "more than 3 rows": ("positions.batch > 3", "check_reference_scores"),
    "documents of a batch": (
        "positions.keys.document is not None and positions.keys.document.ndim == 2",
        "check_packed",
    ),
    "documents of a batch without padding": (
        "positions.keys.document is not None and positions.keys.document.ndim == 2 "
        "and not positions.padded",
        "check_packed",
    ),
    "padding beside documents": (
        "positions.padded and positions.keys.document is not None",
        "check_packed",
    ),
    "training": ("self.training", "check_training"),
}

FAULTS = [
    Fault(
        f"slopes steeper in case of {name}",
        "posenc.encodings.alibi:ALiBi.lower",
        RETURNED,
        f"return (Slope(past * (1.5 if {condition} else 1), future, self.inside),)",
        alibi,
        caught_by,
        alone=caught_by == "check_training",
    )
    for name, (condition, caught_by) in CONDITIONS.items()
]
