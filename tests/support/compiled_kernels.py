"""What Triton's compiler makes of attention's kernels, which needs no GPU."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any

import pytest
import torch

POINTERS = {
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.bool: "*i1",
}
OPTIONS = ("num_warps", "num_stages", "enable_fp_fusion")


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


class Compiler:
    """Stands in for a kernel: a launch compiles it for an architecture and keeps its code."""

    def __init__(self, kernel: Any, architecture: int, made: dict[str, Code]) -> None:
        self.kernel, self.architecture, self.made = kernel, architecture, made

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return self.launch

    def launch(self, *args: Any, **settings: Any) -> None:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        options = {name: settings.pop(name) for name in OPTIONS}
        values = dict(zip(self.kernel.arg_names, args, strict=False)) | settings
        signature, constants, attributes = {}, {}, {}
        for place, parameter in enumerate(self.kernel.params):
            value = values[parameter.name]
            number = isinstance(value, int) and not parameter.do_not_specialize
            if parameter.is_constexpr or (number and value == 1):
                signature[parameter.name], constants[(place,)] = "constexpr", value
                continue
            signature[parameter.name] = _type(value)
            if isinstance(value, torch.Tensor) or (number and value % 16 == 0):
                attributes[(place,)] = [["tt.divisibility", 16]]
        source = ASTSource(self.kernel, signature, constants, attributes)
        target = GPUTarget("cuda", self.architecture, 32)
        done = triton.compile(source, target=target, options=options)
        instructions = _disassembled(done.asm["cubin"])
        self.made[self.kernel.__name__] = Code(
            done.asm["ptx"], done.asm["ttgir"], instructions, done.metadata.shared
        )


def _type(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return POINTERS[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


def _disassembled(cubin: bytes) -> list[tuple[int, str]]:
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "-sass", file.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.finditer(r"/\*([0-9a-f]{4,5})\*/\s+(.*?);", told)
    return [(int(line[1], 16), line[2]) for line in found]


def attention_code(
    monkeypatch: pytest.MonkeyPatch, architecture: int, *inputs: Any, learns: bool
) -> dict[str, Code]:
    """The kernels of a forward and a backward pass, on tensors that nothing is computed of."""
    from posenc.triton import attention, kernel_args
    from posenc.triton.kernel_args import Inputs

    made: dict[str, Code] = {}
    for name in ("forward_kernel", "query_kernel", "key_kernel"):
        kernel = getattr(attention, name)
        monkeypatch.setattr(attention, name, Compiler(kernel, architecture, made))
    # The precision of a GPU, for tensors that are on none.
    monkeypatch.setattr(kernel_args, "_precision", lambda q: "ieee")
    x = Inputs(*inputs)
    out, lse = attention._forward(*x)
    attention._backward(out, out, lse, None, learns, *x)
    return made
