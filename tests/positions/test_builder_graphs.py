"""Positions built inside traced graphs, where no value may be read."""

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from posenc import Positions
from posenc.torch_modes import named

IN_GRAPHS = {
    "cu_seqlens": lambda x, cu: Positions.build(x.shape[0], cu_seqlens=cu, causal=True),
    "varlen": lambda x, cu: Positions.varlen(
        cu, cu, q_len=x.shape[0], k_len=x.shape[0], causal=True
    ),
    "past": lambda x, cu: Positions.build(2, past=x.shape[0] - 2, start=2, device=x.device),
    "documents": lambda x, cu: Positions.build(documents=x > 2, attention_mask=x[None] < 99),
    "static": lambda x, cu: Positions.static(2, 9, cu[-1] - 2),
    "rolling": lambda x, cu: Positions.rolling(past=x.shape[0], window=3, sinks=1, device=x.device),
    "random": lambda x, cu: Positions.random(x.shape[0], longest=x.shape[0], device=x.device),
    "skipping": lambda x, cu: Positions.skipping(x.shape[0], longest=x.shape[0], device=x.device),
    "mrope": lambda x, cu: Positions.mrope(
        (x[None] < 4).long(), cu.new_tensor([[1, 2, 2]]), attention_mask=x[None] < 99
    ),
}


@pytest.mark.graph
@pytest.mark.parametrize("name", IN_GRAPHS)
def test_positions_may_be_built_inside_a_graph(name: str) -> None:
    build = IN_GRAPHS[name]

    def tensors(x: Tensor, cu: Tensor) -> list[Tensor]:
        made = build(x, cu)
        held = [*named(made.queries).values(), *named(made.keys).values()]
        return [x for x in held if isinstance(x, Tensor)]

    torch._dynamo.reset()
    compiled = torch.compile(tensors, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (5, 8):
        given_ = torch.arange(length), torch.tensor([0, 2, 2, length])
        for got, wanted in zip(compiled(*given_), tensors(*given_), strict=True):
            assert torch.equal(got, wanted)


@pytest.mark.parametrize("name", IN_GRAPHS)
def test_everything_lies_where_the_tokens_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of another device cannot be mixed with those on meta, which have no values."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with torch.device("meta"):
        said = torch.arange(8), torch.tensor([0, 2, 2, 8])
    for leaf in pytree.tree_leaves(IN_GRAPHS[name](*said)):
        assert not isinstance(leaf, Tensor) or leaf.device.type == "meta"


@pytest.mark.newer
@pytest.mark.graph
def test_a_graph_must_be_told_how_many_tokens_there_are() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda cu: Positions.build(cu_seqlens=cu).keys.position, fullgraph=True, backend="eager"
    )
    with pytest.raises(Exception, match="tell the number of tokens"):
        compiled(torch.tensor([0, 2, 5]))
