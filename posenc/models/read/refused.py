"""Model types whose positions nothing in a specification says, and why."""

from collections.abc import Mapping

_INKLING2 = (
    "its attention has a sink that each token tells, and a bias that each query tells by distance"
)

REFUSED: Mapping[str, str] = dict.fromkeys(
    ("inkling2", "inkling2_text", "inkling2_loop", "inkling2_loop_text"), _INKLING2
)
