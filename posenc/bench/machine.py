"""What a results file says of the machine and of the software."""

import importlib.metadata
import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

from posenc import __version__
from posenc.lab.hardware import hardware
from posenc.native.library import LIBRARY

PEERS = ("transformers", "x-transformers", "rotary-embedding-torch")
# What decides which kernels run.
FLAGS = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_bf16", "amx_bf16", "asimd", "sve")

# What holds the kernels of posenc, of torch and of its libraries to lesser instruction sets.
HOLDING = (
    "POSENC_NATIVE_ISA",
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "MKL_ENABLE_INSTRUCTIONS",
)


def command_line() -> str:
    """The command of this process, after what its environment holds the kernels to."""
    held = [f"{name}={os.environ[name]}" for name in HOLDING if name in os.environ]
    return shlex.join([*held, "posenc", *sys.argv[1:]])


def machine(threads: int) -> dict[str, Any]:
    """Processor and its vector instructions, memory, and the versions of what was run."""
    import torch

    native = LIBRARY if isinstance(LIBRARY, str) else LIBRARY.instruction_set
    return {
        **hardware(threads),
        "flags": _flags(),
        "memory_gib": _memory_gib(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "posenc": __version__,
        "native": native,
        "wait_policy": os.environ.get("OMP_WAIT_POLICY"),
        "gpu": None,
        "peers": {name: version(name) for name in PEERS},
    }


def version(package: str) -> str | None:
    """Its version, or None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _flags() -> list[str]:
    information = Path("/proc/cpuinfo")
    if not information.exists():
        return []
    for line in information.read_text(errors="replace").splitlines():
        if line.startswith(("flags", "Features")):
            has = set(line.partition(":")[2].split())
            return [flag for flag in FLAGS if flag in has]
    return []


def _memory_gib() -> float | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (AttributeError, ValueError, OSError):
        return None
