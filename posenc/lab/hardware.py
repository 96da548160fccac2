"""What the manifest says of the machine, and the memory that a process has held."""

import os
import platform
import sys
from pathlib import Path
from typing import Any


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def hardware(threads: int) -> dict[str, Any]:
    """Processor, system, cores, and the threads that the run computes with."""
    return {
        "cpu": _cpu_name(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores(),
        "threads": threads,
    }


def peak_memory_mb() -> float | None:
    """The largest memory (in 1e6 bytes) that this process has held, where the system tells."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _cpu_name() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
