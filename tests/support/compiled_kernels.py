"""What Triton's compiler makes of attention's kernels, which needs no GPU."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any

from tests.support.fake_gpu import fake_gpu


@dataclass(frozen=True)
class Code:
    """ptx, ttgir (the layouts of tiles), the instructions by address, bytes of shared memory."""

    ptx: str
    ttgir: str
    instructions: list[tuple[int, str]]
    shared: int

    def spills(self) -> int:
        """How many instructions of the innermost loops move what found no register."""
        loops = []
        for address, instruction in self.instructions:
            jump = re.search(r"BRA\b.*?(0x[0-9a-f]+)", instruction)
            if jump is not None and int(jump[1], 16) < address:
                loops.append((int(jump[1], 16), address))
        innermost = [
            (start, end)
            for start, end in loops
            if not any(start <= x and y <= end and (x, y) != (start, end) for x, y in loops)
        ]
        assert innermost
        return sum(
            instruction.split(".")[0].split()[-1] in ("LDL", "STL")
            for start, end in innermost
            for address, instruction in self.instructions
            if start <= address <= end
        )

    def loops(self) -> list[str]:
        """The innermost loops that multiply tiles: of far ones, near ones (if any), masked."""
        lines = self.ttgir.splitlines()
        loops = []
        for number, line in enumerate(lines):
            if "scf.for" not in line:
                continue
            indent = len(line) - len(line.lstrip())
            rest = lines[number + 1 :]
            end = next(n for n, x in enumerate(rest) if len(x) - len(x.lstrip()) <= indent)
            body = "\n".join(rest[:end])
            if "scf.for" not in body and "dot" in body:
                loops.append(body)
        return loops


def _disassembled(cubin: bytes) -> list[tuple[int, str]]:
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "-sass", file.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.finditer(r"/\*([0-9a-f]{4,5})\*/\s+(.*?);", told)
    return [(int(line[1], 16), line[2]) for line in found]


def attention_code(architecture: int, *inputs: Any, learns: bool) -> dict[str, Code]:
    """The kernels of a forward and a backward pass, on tensors that nothing is computed of."""
    from posenc.triton import attention
    from posenc.triton.kernel_args import Inputs

    x = Inputs(*inputs)
    with fake_gpu(architecture) as gpu:
        out, lse = attention._forward(*x)
        attention._backward(out, out, lse, None, learns, *x)
    return {launch.name: _code(launch.compiled) for launch in gpu.launches}


def _code(compiled: Any) -> Code:
    told = compiled.asm
    instructions = _disassembled(told["cubin"])
    return Code(told["ptx"], told["ttgir"], instructions, compiled.metadata.shared)
