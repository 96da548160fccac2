"""Losses in chunks are those of one forward pass, and few logits are held at a time."""

from typing import Any

import pytest
import torch
from extend_models import tiny_model
from torch import Tensor
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, GPTNeoXConfig, GPTNeoXForCausalLM

from posenc.errors import UnsupportedError
from posenc.extend.forward import score
from posenc.extend.methods import Reach, encodings, settled
from posenc.extend.options import METHODS
from posenc.models.attach import attach
from posenc.models.read import read


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model()


@pytest.fixture(scope="module")
def ids() -> Tensor:
    return torch.randint(0, 256, (70,), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("chunk", [1, 7, 64, 512])
@pytest.mark.parametrize("first", [1, 2, 33, 69])
def test_losses_and_ranks_are_those_of_one_forward(
    chunk: int, first: int, model: Any, ids: Tensor
) -> None:
    with torch.no_grad():
        logits = model(ids[None]).logits[0, :-1]
    losses = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
    places = logits.argsort(dim=-1, descending=True) == ids[1:, None]
    scored = score(model, ids, first, chunk)
    assert torch.allclose(scored.loss, losses[first - 1 :], atol=1e-5)
    assert torch.equal(scored.rank, places.int().argmax(-1)[first - 1 :])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["windows", "partial"])
def test_chunks_change_nothing_of_an_attached_model(kind: str, method: str, ids: Tensor) -> None:
    """Windows beside full attention, and heads that turn in part, where the method can do it."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 32}
    if kind == "windows":
        gemma = {"num_key_value_heads": 1, "head_dim": 16, "sliding_window": 16}
        types = ["sliding_attention", "full_attention"]
        config = Gemma3TextConfig(
            vocab_size=256, intermediate_size=32, num_hidden_layers=2, layer_types=types,
            **gemma, **sizes,
        )  # fmt: skip
        model = Gemma3ForCausalLM(config).eval()
    else:
        config = GPTNeoXConfig(vocab_size=256, intermediate_size=32, num_hidden_layers=2, **sizes)
        model = GPTNeoXForCausalLM(config).eval()
    try:
        layers = encodings(read(config.to_dict()), method, Reach(32, 70))
    except UnsupportedError:
        assert kind == "partial"
        return
    layers = [[settled(part, 70) for part in parts] for parts in layers]
    attach(model, lambda number: layers[number])
    with torch.no_grad():
        logits = model(ids[None]).logits[0, :-1]
    losses = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
    assert torch.allclose(score(model, ids, chunk=9).loss, losses, atol=1e-5)


def test_logits_are_made_of_scored_tokens_only(model: Any, ids: Tensor) -> None:
    rows: list[int] = []
    head = model.get_output_embeddings()
    hook = head.register_forward_hook(lambda *call: rows.append(call[2].shape[1]))
    score(model, ids, 60, 16)
    # Five chunks of 69 tokens; the first that is scored is predicted from token 59.
    assert rows == [1, 1, 1, 5, 5]
    hook.remove()
