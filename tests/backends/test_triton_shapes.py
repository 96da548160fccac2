"""The machine code of Triton's attention has the shape that was meant, which tells without a GPU.

Products on matrix units, keys and values copied ahead of them, no register spilled in a loop over
tiles, and nothing of a tile through shared memory where most are met.
"""

from typing import Literal

import pytest
import torch

from tests.support.compiled_kernels import Code, attention_code
from tests.support.fake_gpu import MARKS, SHARED

pytestmark = MARKS
KERNELS: dict[str, Literal["forward", "queries", "keys"]] = {
    "forward_kernel": "forward",
    "query_kernel": "queries",
    "key_kernel": "keys",
}
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
    from posenc.triton.kernel_args import blocks_for

    kernels = compiled(bias, architecture)
    # A table's gradient is added up, and multiplies nothing.
    kernels.pop("table_kernel", None)
    assert set(kernels) == set(KERNELS)
    for name, code in kernels.items():
        assert UNIT[architecture] in code.ptx, name
        assert code.shared <= SHARED[architecture], name
        loops = code.loops()
        assert len(loops) == (3 if bias == "table" else 2), name
        # With one stage nothing is copied ahead, and Hopper's fastest tiles of keys have one.
        blocks = blocks_for(
            128, torch.bfloat16, KERNELS[name], by_table=bias == "table", hopper=architecture == 90
        )
        for loop in loops:
            assert ("async_copy" in loop) == (blocks[3] > 1), name
        # Only from the layout that a product leaves to that in which the next reads, in
        # registers, and numbers per row.
        for line in loops[0].splitlines():
            held = "dot_op" in line or "slice" in line or "x1xf32" in line
            assert "convert_layout" not in line or held, (name, line)
        # An H200 timed these tiles of keys as the fastest of some ten, spills and all.
        allowed = 100 if (name, architecture) == ("key_kernel", 90) else 0
        assert code.spills() <= allowed, name
