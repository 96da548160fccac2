"""What attention costs on paper is what the simulator counts, byte by byte."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import posenc as pe
from posenc import Positions
from posenc.encoding import Encoding
from posenc.parallel import cost
from posenc.parallel.ring import ring
from posenc.parallel.simulator import Simulator, Traffic
from posenc.parallel.ulysses import ulysses
from tests.support.pages import DOCS

sys.path.append(str(DOCS.parent / "tools"))

import shard_costs

WHOLE = Positions.build(48, causal=True)


def counted(way: Callable[..., Any], layer: cost.Layer, size: int) -> dict[str, Traffic]:
    """A step of training on all ranks."""
    dtype = {2: torch.bfloat16, 8: torch.float64}[layer.width]
    parts = [
        [
            torch.randn(layer.batch, heads, 48 // size, layer.head_dim).to(dtype).requires_grad_()
            for _ in range(size)
        ]
        for heads in (layer.heads, layer.key_heads, layer.key_heads)
    ]
    simulator = Simulator(size)
    outs = way(simulator, *parts, pe.Rotary(layer.head_dim), positions=WHOLE, plan="zigzag")
    torch.cat(outs, dim=2).float().sum().backward()
    return simulator.traffic


@pytest.mark.parametrize("width", [2, 8])
@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_a_ring_sends_what_is_on_paper(size: int, width: int) -> None:
    layer = cost.Layer(48, heads=8, key_heads=2, head_dim=16, batch=2, width=width)
    paper, traffic = cost.ring(layer, size), counted(ring, layer, size)
    assert traffic["forward"].sent == [paper.forward] * size
    assert traffic["backward"].sent == [paper.backward] * size
    if width == 2:
        own = 2 * layer.of_rank(size, layer.key_heads) * width
        assert traffic["backward"].peak == [own + paper.moving] * size


@pytest.mark.parametrize("size", [2, 4, 8])
def test_ulysses_sends_what_is_on_paper(size: int) -> None:
    layer = cost.Layer(48, heads=8, key_heads=2, head_dim=16)
    paper, traffic = cost.ulysses(layer, size), counted(ulysses, layer, size)
    assert traffic["forward"].sent == [paper.forward] * size
    assert traffic["backward"].sent == [paper.backward] * size


def test_ulysses_needs_a_head_for_every_rank() -> None:
    layer = cost.Layer(2**20, heads=32, key_heads=8, head_dim=128)
    with pytest.raises(pe.PositionsError, match="32 query heads: use a ring, or fewer ranks"):
        cost.ulysses(layer, 64)


def test_causal_work_is_the_pairs_that_ranks_see() -> None:
    mask = torch.tensor([[1] * 16, [1] * 5 + [0] * 11])
    padded = Positions.build(attention_mask=mask, causal=True)
    assert sum(cost.causal_work(padded, 4, "striped")) == 16 * 17 // 2 + 5 * 6 // 2
    packed = Positions.build(lengths=[4, 12], causal=True)
    assert cost.causal_work(packed, 2, "zigzag") == [52, 36]
    assert cost.causal_work(packed, 2, pe.PerDocument([4, 12])) == [44, 44]


@pytest.mark.parametrize("name", ["rotary", "xpos", "rerope", "kerple", "fire", "forget_gate"])
def test_what_encodings_add_grows_as_the_page_has_it(name: str) -> None:
    """The page measures a few hundred tokens; here are more, on more ranks."""
    kind = pe.encodings()[name]
    layer = cost.Layer(2048, heads=4, key_heads=2, head_dim=8)
    added = shard_costs.measured(kind, layer, 4)
    sizes = {"model_dim": 8, "heads": 4, "head_dim": 8, "max_length": 2048, "train_length": 128}
    encoding: Encoding = kind.for_model(**sizes, causal=True)
    assert shard_costs._held(encoding, 2048, 4) == added.held
    assert shard_costs._whole(encoding, 2048, 1) == added.whole


def test_the_pages_name_what_a_ring_refuses() -> None:
    layer = cost.Layer(32, heads=2, key_heads=2, head_dim=8)
    kinds = [kind for kind in pe.encodings().values() if kind.embed is Encoding.embed]
    refused = [kind for kind in kinds if shard_costs.measured(kind, layer, 2).beside is None]
    assert pe.PaTH in refused
    for language in ("en", "zh"):
        text = (DOCS / language / "howto" / "ring.md").read_text()
        assert not [kind for kind in refused if text.count(kind.__name__) < 2]
