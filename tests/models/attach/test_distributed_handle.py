"""A model in DistributedDataParallel, which knows the model as it was when it was wrapped."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

import posenc as pe
from posenc.errors import UnsupportedError
from posenc.lab.train.together import group
from posenc.models.attach import detach

transformers = pytest.importorskip("transformers")

IDS = torch.randint(1, 64, (2, 12), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module", autouse=True)
def alone() -> Iterator[None]:
    """A process group of this process alone."""
    with group("cpu"):
        yield


def new() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=64, initializer_range=0.2, **sizes, **heads)
    )


def gradient(model: Any) -> torch.Tensor:
    """Of a step of training, which is where buffers are broadcast."""
    model.zero_grad()
    model(input_ids=IDS, labels=IDS).loss.backward()
    grad = next(model.parameters()).grad
    assert grad is not None
    return grad.clone()


@pytest.mark.parametrize("encoding", [None, pe.ALiBi(4)])
def test_it_trains_where_posenc_enters_through_it(encoding: pe.Encoding | None) -> None:
    model = new()
    pe.attach(model, encoding)
    expected = gradient(model)
    wrapped = DistributedDataParallel(new())
    own = gradient(wrapped)
    for _ in range(2):
        pe.attach(wrapped, encoding)
        torch.testing.assert_close(gradient(wrapped), expected)
    detach(wrapped)
    torch.testing.assert_close(gradient(wrapped), own)


def test_what_it_would_not_sum_is_refused() -> None:
    wrapped, bias = DistributedDataParallel(new()), pe.T5Bias(heads=4)
    with pytest.raises(UnsupportedError, match=r"not of this encoding: attach to the model first"):
        pe.attach(wrapped, bias)
    gradient(wrapped)
    bias.requires_grad_(False)
    pe.attach(wrapped, bias)
    gradient(wrapped)


def test_what_it_was_wrapped_with_may_come_again() -> None:
    model, bias = new(), pe.T5Bias(heads=4)
    pe.attach(model, bias)
    wrapped = DistributedDataParallel(model)
    expected = gradient(wrapped)
    pe.attach(wrapped, bias)
    torch.testing.assert_close(gradient(wrapped), expected)
    assert bias.weight.grad is not None
