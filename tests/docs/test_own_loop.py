"""The page on large runs shards a model in a loop of one's own: two processes train as one."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor

import posenc as pe
from tests.support.pages import DOCS, blocks
from tests.support.pair import Pair

pytestmark = pytest.mark.long
PAGE = DOCS / "en" / "howto" / "large_run.md"
WAYS = {
    "float32": MixedPrecisionPolicy(),
    "bfloat16": MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32
    ),
}


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    found = Pair()
    yield found
    found.close()


def gradients(policy: MixedPrecisionPolicy | None, rank: int = 0) -> dict[str, Tensor]:
    """Of a batch of two; FIRE has six parameters, of which two are single numbers."""
    torch.manual_seed(0)
    model = pe.Transformer(11, 32, 2, 4, pe.FIRE(heads=4), max_length=12)
    tokens = torch.randint(11, (2, 12))
    if policy is not None:
        page: dict[str, Any] = {}
        for block in blocks(PAGE):
            exec(block, page)
        page["shard"](model, init_device_mesh("cpu", (2,)), policy)
        tokens = tokens[rank : rank + 1]
    model(tokens).square().mean().backward()
    if policy is not None:
        page["join"](model)
    return {
        name: p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad
        for name, p in model.named_parameters()
        if p.grad is not None
    }


def both(name: str) -> dict[str, Tensor]:
    return gradients(WAYS[name], torch.distributed.get_rank())


@pytest.mark.parametrize(("name", "allowed"), [("float32", 1e-6), ("bfloat16", 0.01)])
def test_two_processes_have_the_gradients_of_one(pair: Pair, name: str, allowed: float) -> None:
    whole = gradients(None)
    for found in pair(both, name):
        assert found.keys() == whole.keys()
        for key, wanted in whole.items():
            limit = allowed * max(1.0, wanted.abs().max().item())
            torch.testing.assert_close(found[key], wanted, rtol=0, atol=limit)
