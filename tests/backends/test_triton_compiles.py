"""Every Triton kernel compiles to machine code for an H200, which needs Triton but no GPU.

The interpreter runs Python and accepts more than the compiler does.
"""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
import torch

READY = find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") != "1"
HOW = "needs Triton (pip install -e '.[triton]') and no TRITON_INTERPRET"
pytestmark = pytest.mark.skipif(not READY, reason=HOW)

POINTERS = {
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.bool: "*i1",
}


class Compiled:
    """Stands in for a kernel: a launch compiles it for sm_90 and notes what it takes."""

    def __init__(self, kernel: Any, notes: dict[str, int]) -> None:
        self.kernel, self.notes = kernel, notes

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return self.compile

    def compile(self, *args: Any, **settings: Any) -> None:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        names = ("num_warps", "num_stages", "enable_fp_fusion")
        options = {name: settings.pop(name) for name in names if name in settings}
        values = dict(zip(self.kernel.arg_names, args, strict=False)) | settings
        signature, constants, attributes = {}, {}, {}
        for place, parameter in enumerate(self.kernel.params):
            value = values[parameter.name]
            signature[parameter.name] = kind(value)
            if parameter.is_constexpr or (isinstance(value, int) and value == 1):
                signature[parameter.name], constants[(place,)] = "constexpr", value
            elif isinstance(value, torch.Tensor) or (isinstance(value, int) and value % 16 == 0):
                attributes[(place,)] = [["tt.divisibility", 16]]
        source = ASTSource(self.kernel, signature, constants, attributes)
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
        assert compiled.asm["cubin"]
        self.notes[self.kernel.__name__] = compiled.metadata.shared


def kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return POINTERS[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Shared memory of each kernel that the test launched."""
    from posenc.triton import attention, decoding, kernel_args, rotary

    taken: dict[str, int] = {}
    for module, names in (
        (attention, ("forward_kernel", "query_kernel", "key_kernel")),
        (decoding, ("decode_kernel",)),
        (rotary, ("_rotate_kernel",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, Compiled(getattr(module, name), taken))
    # The precision of a GPU, for tensors that are on none.
    monkeypatch.setattr(kernel_args, "_precision", lambda q: "ieee")
    yield taken
    # An H200 gives a program 227 KiB.
    assert taken
    assert max(taken.values()) <= 227 * 1024


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(("dim", "pairs", "start"), [(128, 64, 0), (192, 32, 128)])
def test_rotary(layout: Any, dim: int, pairs: int, start: int, notes: dict[str, int]) -> None:
    from posenc.triton import rotary

    q, k = (torch.empty(1, heads, 256, dim, dtype=torch.bfloat16) for heads in (8, 2))
    wave = torch.empty(1, 1, 256, pairs)
    rotary.rotated((q, k), (wave, wave), (wave, wave), layout, start)
    assert notes.keys() == {"_rotate_kernel"}


@pytest.mark.parametrize("bias", ["table", "slope", "packed"])
def test_attention(bias: str, notes: dict[str, int]) -> None:
    from posenc.triton import attention
    from posenc.triton.kernel_args import Inputs

    q = torch.empty(1, 4, 256, 128, dtype=torch.bfloat16)
    k = torch.empty(1, 2, 256, 128, dtype=torch.bfloat16)
    table = torch.empty(4, 129) if bias != "slope" else None
    past = torch.empty(4) if bias == "slope" else None
    long = torch.zeros(1, 256).long()
    valid = torch.ones(1, 256, dtype=torch.bool)
    places = [*[long] * 6, valid] if bias == "packed" else []
    width = 64 if bias == "slope" else 0
    sink = None if table is None else torch.empty(4)
    x = Inputs(q, k, k, table, past, past, places, 128, 0.1, True, width, 4, 0, not places, sink)
    out, lse = attention._forward(*x)
    attention._backward(q, out, lse, lse if bias == "packed" else None, table is not None, *x)
    assert len(notes) == 3


def test_decoding(notes: dict[str, int]) -> None:
    from posenc.triton import decoding
    from posenc.triton.kernel_args import Inputs

    q, k = (torch.empty(1, *size, 128, dtype=torch.bfloat16) for size in ((8, 1), (2, 4096)))
    table, past = torch.empty(8, 129), torch.empty(8)
    sizes = 128, 0.1, True, 100, 4, 0
    decoding.decode(Inputs(q, k, k, table, past, past, [], *sizes, plain=True, sink=past))
    assert notes.keys() == {"decode_kernel"}
