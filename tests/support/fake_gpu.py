"""A GPU that is not there: Triton binds, specialises and compiles for it, and launches are noted.

Triton's own code decides what it compiles, so that tests can ask how often it does, with which grid
it launches, and what the machine code is. Nothing runs, so that no number comes out.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest

READY = find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") != "1"
HOW = "needs Triton (pip install -e '.[triton]') and no TRITON_INTERPRET"
MARKS = pytest.mark.skipif(not READY, reason=HOW)

# Bytes of shared memory that a program may have, by compute capability: CUDA C++ Programming Guide,
# technical specifications per compute capability.
SHARED = {80: 163 * 1024, 90: 227 * 1024}


@dataclass(frozen=True)
class Launch:
    """One launch: the kernel's name, its grid, its arguments by name, and what was compiled."""

    name: str
    grid: tuple[int, int, int]
    arguments: dict[str, Any]
    compiled: Any = field(repr=False)


@dataclass
class FakeGPU:
    """Stands in for Triton's driver, of compute capability 80 or 90."""

    arch: int
    launches: list[Launch] = field(default_factory=list)
    launcher_cls: Any = None

    def __post_init__(self) -> None:
        self.launcher_cls = self._launcher
        self.utils = SimpleNamespace(
            load_binary=lambda *_: (None, None, 0, 0, 1024),
            unload_module=lambda *_: None,
            get_device_properties=lambda _: {"max_shared_mem": 2**31},
        )

    def get_current_device(self) -> int:
        # By which Triton keeps what it compiled.
        return self.arch

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.arch, 32)

    def _launcher(self, source: Any, metadata: Any) -> Any:
        names = source.fn.arg_names
        # Triton asks for a launcher at each launch, also of what was compiled long before.
        compiled = next(one for one in self._compiled(source.fn) if one.src is source)

        def launch(x: int, y: int, z: int, *rest: Any) -> None:
            arguments = dict(zip(names, rest[-len(names) :], strict=True))
            self.launches.append(Launch(source.fn.__name__, (x, y, z), arguments, compiled))

        return launch

    def _compiled(self, kernel: Any) -> list[Any]:
        return list(kernel.device_caches[self.arch][0].values())

    def compiled(self, *kernels: Any) -> int:
        """How many times these kernels were compiled."""
        return sum(len(self._compiled(kernel)) for kernel in kernels)


@contextmanager
def fake_gpu(arch: int = 90) -> Iterator[FakeGPU]:
    """Triton takes the machine for one with a GPU of this compute capability, on CPU tensors."""
    from triton.runtime import driver

    gpu, before = FakeGPU(arch), driver._active
    driver.set_active(gpu)
    try:
        yield gpu
    finally:
        driver._active = before


@dataclass(frozen=True)
class Machine:
    """What a program takes: bytes of shared memory, registers and bytes of stack of a thread."""

    shared: int
    registers: int
    stack: int


def machine(compiled: Any) -> Machine:
    """What NVIDIA's tools, which Triton brings along, say of the machine code."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with TemporaryDirectory() as folder:
        binary = Path(folder, "kernel.cubin")
        binary.write_bytes(compiled.asm["cubin"])
        command = [tool, "-res-usage", binary]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    registers, stack, local = (
        int(re.findall(rf"\b{name}:(\d+)", said)[0]) for name in ("REG", "STACK", "LOCAL")
    )
    return Machine(compiled.metadata.shared, registers, stack + local)


def words(compiled: Any, instruction: str) -> set[int]:
    """How many bytes a thread moves at once by all `ld.global` or `st.global` of the PTX."""
    found = re.findall(
        rf"{instruction}\.global(?:\.L\w+|::\w+)*(?:\.v(\d))?\.b(\d+)", ptx(compiled)
    )
    return {int(count or 1) * int(bits) // 8 for count, bits in found}


def ptx(compiled: Any) -> str:
    return compiled.asm["ptx"]
