"""Every Triton kernel compiles for an A100 and an H100, and the machine code is what was planned.

No GPU is needed: a few configurations here, all with `make kernels`. The interpreter runs Python
and accepts more than the compiler does.
"""

import os

import pytest
import torch

from tests.support.fake_gpu import MARKS, SHARED
from tests.support.kernel_configurations import HALVES, Configuration, compiled, described, shipped

pytestmark = MARKS

FEW = [
    Configuration("table", 90, torch.bfloat16, 128),
    Configuration("packed", 80, torch.bfloat16, 64),
    Configuration("vectors", 90, torch.bfloat16, 64),
    Configuration("padded vectors", 90, torch.bfloat16, 64),
    Configuration("gathered", 80, torch.bfloat16, 64),
    Configuration("table", 80, torch.float64, 256),
    Configuration("decode", 90, torch.bfloat16, 128),
    Configuration("decode", 80, torch.float64, 128),
    Configuration("rotary", 90, torch.bfloat16, 128),
]
CONFIGURATIONS = list(shipped()) if os.environ.get("POSENC_KERNELS") == "all" else FEW
# One query is a tile of 16 rows, and Hopper's own instruction takes 64.
NARROW = "decode_kernel", "combine_kernel", "rotate_kernel"
MULTIPLIES_NOT = "combine_kernel", "rotate_kernel", "table_kernel"
# Bytes of stack of a thread where there is no room for all registers: the first of Triton 3.6, of
# which 3.9 has 8, the second of 3.9.
STACK = {
    ("decode_kernel", 80, torch.float32, 256): 56,
    ("decode_kernel", 80, torch.float64, 128): 8,
}


@pytest.mark.parametrize("it", CONFIGURATIONS, ids=str)
def test_the_machine_code(it: Configuration) -> None:
    launches = compiled(it)
    assert launches
    for launch in launches:
        told = described(launch)
        name = told["kernel"]
        assert told["shared"] <= SHARED[it.arch], told
        if name not in MULTIPLIES_NOT:
            assert told["mma"] or told["wgmma"], f"{name} multiplies without matrix units: {told}"
        if name in (*NARROW, "table_kernel"):
            known = STACK.get((name, it.arch, it.dtype, it.width), 0)
            assert told["stack"] <= known, f"{name} keeps registers in memory: {told}"
        if name == "decode_kernel":
            assert told["copies ahead"], f"{name} waits for what it reads: {told}"
        if name == "forward_kernel" and it.dtype in HALVES:
            assert told["wgmma"] == (it.arch == 90), told
            assert told["copies ahead"], told
