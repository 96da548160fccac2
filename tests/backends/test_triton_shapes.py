"""The machine code of Triton's attention has the shape that was meant, which tells without a GPU.

Products on matrix units, keys and values copied ahead of them, no register spilled in a loop over
tiles, and nothing of a tile through shared memory where most are met.
"""

import pytest
import torch

from tests.support.compiled_kernels import Code, attention_code
from tests.support.fake_gpu import MARKS, SHARED

pytestmark = MARKS
UNIT = {80: "mma.sync", 90: "wgmma.mma_async"}


def compiled(bias: str, architecture: int) -> dict[str, Code]:
    length = 256
    q = torch.empty(1, 4, length, 128, dtype=torch.bfloat16)
    k = torch.empty(1, 2, length, 128, dtype=torch.bfloat16)
    table = torch.empty(4, 129) if bias == "table" else None
    past = torch.empty(4) if bias == "slopes" else None
    offset = torch.empty(1, 4, length) if bias == "offsets" else None
    told = torch.zeros(1, length).long()
    valid = torch.ones(1, length, dtype=torch.bool)
    places = [*[told] * 6, valid] if bias == "packed" else []
    rules = 128, 0.1, True, 0, 0, 0, not places
    biases = table, past, past, places
    rest = None, False, offset, offset
    inputs = q, k, k, *biases, *rules, *rest
    return attention_code(architecture, *inputs, learns=table is not None)


@pytest.mark.parametrize(
    ("bias", "architecture"),
    [("table", 90), ("packed", 90), ("table", 80), ("slopes", 80), ("offsets", 80)],
)
def test_tiles_stay_where_they_are_multiplied(bias: str, architecture: int) -> None:
    kernels = compiled(bias, architecture)
    assert set(kernels) == {"forward_kernel", "query_kernel", "key_kernel"}
    for name, code in kernels.items():
        assert UNIT[architecture] in code.ptx, name
        assert code.shared <= SHARED[architecture], name
        loops = code.loops()
        assert len(loops) == (3 if bias == "table" else 2), name
        for loop in loops:
            assert "async_copy" in loop, name
        # From the layout that a product leaves to that in which the next reads, in registers.
        for line in loops[0].splitlines():
            assert "convert_layout" not in line or "dot_op" in line or "slice" in line, (name, line)
        assert code.spills() == 0, name
