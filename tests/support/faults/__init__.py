"""Faults to plant, one at a time, in the spine and in good encodings; each names who catches it.

A fault replaces text in the source of one function. The text must be there, so a fault cannot
quietly stop being planted when the code around it moves.
"""

from tests.support.faults import (
    absolute,
    alone,
    backends,
    caches,
    conditions,
    content,
    matrices,
    positions,
    relative,
    rotary,
    spine,
)
from tests.support.faults.alone import FALSE_CLAIMS as FALSE_CLAIMS
from tests.support.faults.claims import CLAIMS as OBJECTS
from tests.support.faults.fault import Fault as Fault
from tests.support.faults.fault import plant as plant

FAULTS = [
    fault
    for part in (
        spine,
        positions,
        absolute,
        rotary,
        relative,
        content,
        matrices,
        backends,
        caches,
        conditions,
    )
    for fault in part.FAULTS
]
CLAIMS = [*OBJECTS, *FALSE_CLAIMS, *alone.ALONE]
