"""posenc under models with attention code of their own, as one graph."""

import pytest
import torch

import posenc as pe
from tests.support.own_code import MODELS, assert_same, inputs, output, right_padding, text

pytest.importorskip("transformers")

WHOLE = [
    *("t5", "umt5", "falcon, one key head", "falcon, alibi", "bloom", "mpt"),
    *("deberta-v2, own", "xlnet", "xlnet, causal"),
]


# BLOOM's GELU is an autograd function, of which dynamo makes an instance.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.long
@pytest.mark.parametrize("name", WHOLE)
@torch.no_grad()
def test_a_model_is_one_graph(name: str) -> None:
    model = MODELS[name].build()
    mask = right_padding([15, 9, 4])
    told = inputs(name, text(), mask)
    # How many segments there are decides a shape, and breaks the graph.
    told.pop("token_type_ids", None)
    pe.attach(model)
    expected = output(model, **told)
    torch._dynamo.reset()
    made = output(torch.compile(model, backend="eager", fullgraph=True), **told)
    real = torch.ones(made.shape[:2]).bool() if MODELS[name].encodes else mask.bool()
    assert_same(made[real], expected[real])
