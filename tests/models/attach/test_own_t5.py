"""posenc under T5: its tables, and stacks that stand alone."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.func import functional_call

import posenc as pe
from posenc.errors import UnsupportedError
from tests.support.own_code import MODELS, assert_same, inputs, output, right_padding, text
from tests.support.pair import Pair

transformers = pytest.importorskip("transformers")


def tables(model: nn.Module) -> list[Any]:
    return [x for name, x in model.named_modules() if name.endswith("relative_attention_bias")]


@pytest.fixture
def pair() -> tuple[Any, Any]:
    theirs, ours = MODELS["t5"].build(), MODELS["t5"].build()
    pe.attach(ours)
    return theirs, ours


@torch.no_grad()
@pytest.mark.parametrize("how", ["in place", "another parameter", "load_state_dict"])
def test_the_table_that_the_model_has_now_is_read(pair: tuple[Any, Any], how: str) -> None:
    for model in pair:
        for table in tables(model):
            other = 2 * table.weight + 1
            if how == "in place":
                table.weight.copy_(other)
            elif how == "another parameter":
                table.weight = nn.Parameter(other)
            else:
                table.load_state_dict({"weight": other}, assign=True)
    expected, made = (output(model, **inputs("t5", text())) for model in pair)
    assert_same(made, expected)


def test_weights_may_be_given_from_outside(pair: tuple[Any, Any]) -> None:
    weights = {name: 0.5 * x.detach() for name, x in pair[1].named_parameters()}
    expected, made = (
        functional_call(model, weights, (), inputs("t5", text())).logits for model in pair
    )
    assert_same(made, expected)
    # Afterwards the model's own are back.
    expected, made = (output(model, **inputs("t5", text())) for model in pair)
    assert_same(made, expected)


@torch.no_grad()
@pytest.mark.parametrize("how", ["double", "bfloat16"])
def test_the_model_may_be_cast(pair: tuple[Any, Any], how: str) -> None:
    expected, made = (output(getattr(model, how)(), **inputs("t5", text())) for model in pair)
    assert made.dtype == expected.dtype
    assert_same(made.double(), expected.double(), 1e-12 if how == "double" else 0.05)


@torch.no_grad()
def test_an_encoder_stands_alone() -> None:
    config, mask = MODELS["t5"].config(), right_padding([15, 9, 4])
    torch.manual_seed(0)
    model = transformers.T5EncoderModel(config).eval()
    expected = output(model, input_ids=text(), attention_mask=mask)
    attachment = pe.attach(model)
    assert str(attachment).splitlines()[1].startswith("  3 layers: T5Bias")
    made = output(model, input_ids=text(), attention_mask=mask)
    assert_same(made[mask.bool()], expected[mask.bool()])


@pytest.mark.parametrize("depth", [1, 4])
@torch.no_grad()
def test_a_decoder_of_another_depth_than_its_encoder(depth: int) -> None:
    """As in t5-efficient-base-dl2."""
    theirs, ours = MODELS["t5"].pair(num_decoder_layers=depth)
    told = {"input_ids": text(), "decoder_input_ids": text(seed=2)}
    assert_same(output(ours, **told), output(theirs, **told))
    parts = pe.read(ours.config).parts
    depths = {name: len(part.layers) for name, part in parts.items()}
    assert depths == {"encoder": ours.config.num_layers, "decoder": depth}


def test_umt5_has_a_table_in_every_layer() -> None:
    model = MODELS["umt5"].build()
    pe.attach(model)
    output(model, **inputs("umt5", text())).square().sum().backward()
    assert len(tables(model)) == 6
    assert all(table.weight.grad.abs().max() > 0 for table in tables(model))


@torch.no_grad()
def test_texts_longer_than_the_farthest_bucket(pair: tuple[Any, Any]) -> None:
    ids = text(rows=1, length=150)
    expected, made = (output(model, **inputs("t5", ids)) for model in pair)
    assert_same(made, expected)


@pytest.fixture(scope="module")
def processes() -> Iterator[Pair]:
    found = Pair()
    yield found
    found.close()


def learned_tables(ranks: int, reentrant: bool | None = None) -> list[Tensor] | str:
    """The gradients of both stacks' tables, or why there are none."""
    model = MODELS["t5"].build().train()
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    pe.attach(model)
    if ranks > 1:
        mesh = init_device_mesh("cpu", (ranks,))
        for stack in (model.encoder, model.decoder):
            for block in stack.block:
                fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    if reentrant is not None:
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    try:
        model(**inputs("t5", text()), use_cache=False).logits.square().mean().backward()
    except UnsupportedError as error:
        return str(error)
    grads: list[Any] = [table.weight.grad for table in tables(model)]
    return [grad.full_tensor() if ranks > 1 else grad for grad in grads]


@pytest.mark.long
@pytest.mark.parametrize("reentrant", [None, False])
def test_a_table_in_shares_learns_from_every_layer(processes: Pair, reentrant: bool | None) -> None:
    """Though fully_shard frees it behind the first block, and later blocks read it too."""
    for found in processes(learned_tables, 2, reentrant):
        for grad, wanted in zip(found, learned_tables(1), strict=True):
            torch.testing.assert_close(grad, wanted, rtol=1e-4, atol=1e-7)


@pytest.mark.long
def test_gradients_that_would_not_reach_a_table_in_shares(processes: Pair) -> None:
    for found in processes(learned_tables, 2, True):
        assert "use_reentrant" in found
