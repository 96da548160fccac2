"""A model with posenc is one graph: compiled, with a static cache, and exported."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from posenc.models.cache_names import given_cache
from tests.support.families import FAMILIES
from tests.support.forwards import assert_same, left_padding, logits, text

transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(model: Any) -> Any:
    # What inductor makes of a graph is torch's own, and takes long.
    return torch.compile(model, fullgraph=True, backend="eager")


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2", "phi3", "gpt oss", "modernbert"])
def test_one_graph_for_padded_text(name: str) -> None:
    _, ours = FAMILIES[name].pair()
    ids = text(rows=3)
    told = left_padding(ids, [15, 9, 4])
    real = told["attention_mask"].bool()
    made = logits(compiled(ours), ids, use_cache=False, **told)
    assert_same(made[real], logits(ours, ids, use_cache=False, **told)[real])


@pytest.mark.parametrize("name", ["llama", "mistral", "opt"])
def test_one_graph_for_packed_text(name: str) -> None:
    _, ours = FAMILIES[name].pair()
    places = torch.cat([torch.arange(5), torch.arange(10)])[None]
    told = {"position_ids": places, "use_cache": False}
    assert_same(logits(compiled(ours), text(), **told), logits(ours, text(), **told))


# A window that fills on the way is another graph.
@pytest.mark.parametrize(
    ("name", "count"), [("llama", 1), ("gpt2", 1), ("phi3", 1), ("smollm3", 1), ("gemma3", 2)]
)
def test_one_graph_decodes_every_token(name: str, count: int) -> None:
    _, ours = FAMILIES[name].pair()
    ids = text()
    cache = transformers.StaticCache(config=ours.config, max_cache_len=20)
    held = given_cache(ours, cache)
    rows = [logits(ours, ids[:, :9], **held)]
    graphs: list[Any] = []

    def counting(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    step = torch.compile(ours, fullgraph=True, backend=counting)
    for i in range(9, 15):
        rows.append(logits(step, ids[:, i : i + 1], **held))
    assert_same(torch.cat(rows, dim=1), logits(ours, ids))
    assert len(graphs) == count


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3"])
def test_exported_for_every_length(name: str) -> None:
    _, ours = FAMILIES[name].pair()
    ours.config.use_cache = False
    # As few as there are, for a graph of any number has two or more.
    length = torch.export.Dim("length", max=64)
    program = torch.export.export(
        ours, (text(length=11),), dynamic_shapes={"input_ids": {1: length}}, strict=False
    ).module()
    for longer in (2, 5, 11, 30):
        ids = text(length=longer)
        with torch.no_grad():
            assert_same(program(ids).logits, logits(ours, ids))


def test_padded_rows_under_a_window_are_exported_from_two_tokens_on() -> None:
    """Where a document begins was asked of one pair less than there are tokens: another graph."""
    _, ours = FAMILIES["gemma3"].pair()
    ours.config.use_cache = False
    ids = text(rows=2)
    mask = left_padding(ids, [ids.shape[1], 8])["attention_mask"]
    told = {"input_ids": ids, "attention_mask": mask}
    length = torch.export.Dim("length", min=2, max=64)
    program = torch.export.export(
        ours, (), told, dynamic_shapes={name: {1: length} for name in told}, strict=False
    ).module()
    for other in (2, 11):
        short = {name: x[:, -other:] for name, x in told.items()}
        with torch.no_grad():
            made = program(**short).logits
        expected = logits(ours, short["input_ids"], attention_mask=short["attention_mask"])
        real = short["attention_mask"].bool()
        assert_same(made[real], expected[real])
