"""The most memory that a piece of work holds."""

import contextlib
import mmap
from collections.abc import Iterator
from pathlib import Path

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
_PROBE = 16 * 1024 * 1024


class Peak:
    """In 1e6 bytes, above what was held before; None where the system does not tell."""

    mb: float | None = None


@contextlib.contextmanager
def peak_memory() -> Iterator[Peak]:
    """What the block holds at most, on Linux: the kernel's high-water mark is set back before."""
    peak = Peak()
    before = _start()
    yield peak
    after = _kilobytes("VmHWM")
    if before is not None and after is not None:
        peak.mb = round((after - before) * 1024 / 1e6, 1)


def _start() -> int | None:
    """The mark, set back; None where it cannot be, or does not keep what was held and let go."""
    with contextlib.suppress(OSError):
        CLEAR.write_text("5")
        # Some sandboxes take the word and do nothing, or have the mark follow what is held now.
        with mmap.mmap(-1, _PROBE) as held:
            held.write(bytes(_PROBE))
        high = _kilobytes("VmHWM")
        CLEAR.write_text("5")
        low = _kilobytes("VmHWM")
        if high is not None and low is not None and (high - low) * 1024 > _PROBE / 2:
            return low
    return None


def _kilobytes(name: str) -> int | None:
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(x.split()[1]) for x in lines if x.startswith(f"{name}:")), None)
