"""The most memory that a piece of work holds."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


class Peak:
    """In 1e6 bytes, above what was held before; None where the system does not tell."""

    mb: float | None = None


@contextlib.contextmanager
def peak_memory() -> Iterator[Peak]:
    """What the block holds at most, on Linux: the kernel's high-water mark is set back before."""
    peak = Peak()
    before = None
    with contextlib.suppress(OSError):
        CLEAR.write_text("5")
        before = _kilobytes("VmHWM")
    yield peak
    after = _kilobytes("VmHWM")
    if before is not None and after is not None:
        peak.mb = round((after - before) * 1024 / 1e6, 1)


def _kilobytes(name: str) -> int | None:
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(x.split()[1]) for x in lines if x.startswith(f"{name}:")), None)
