"""What the manifest says of the machine, and the memory that a process has held."""

import os
import platform
import sys
from pathlib import Path
from typing import Any

from posenc.errors import SettingError


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def hardware(threads: int, device: str = "cpu") -> dict[str, Any]:
    """Processor, system, cores, the threads that the run computes with, and another device."""
    found = {
        "cpu": _cpu_name(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores(),
        "threads": threads,
    }
    return found if device == "cpu" else found | {"device": _device_name(device)}


def chosen_device(asked: str) -> str:
    """cuda, mps or cpu, the first that there is, for auto; else what was asked for.

    Raises SettingError for a device that torch does not know or does not find here.
    """
    import torch

    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if asked == "auto":
        return next(name for name, found in there.items() if found)
    if not there.get(asked.partition(":")[0], False):
        found = ", ".join(name for name, is_there in there.items() if is_there)
        raise SettingError(f"device {asked!r} is not to be had: here there is {found}")
    return asked


def peak_memory_mb() -> float | None:
    """The largest memory (in 1e6 bytes) that this process has held, where the system tells."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _device_name(device: str) -> str:
    import torch

    if device.startswith("cuda"):
        return f"{device}: {torch.cuda.get_device_name(device)}"
    return device


def _cpu_name(information: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, on x86 with its family and model: several are called AMD EPYC."""
    found = {"model name": platform.processor() or "unknown"}
    if information.exists():
        # Processors are paragraphs.
        first = information.read_text(errors="replace").partition("\n\n")[0]
        for line in first.splitlines():
            key, _, told = line.partition(":")
            found[key.strip()] = told.strip()
    name, family, model = (found.get(key) for key in ("model name", "cpu family", "model"))
    return f"{name} (family {family}, model {model})" if family and model else str(name)
