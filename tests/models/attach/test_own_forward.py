"""posenc under models with attention code of their own computes what transformers computes."""

import pickle
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from tests.support.allocations import largest_allocation
from tests.support.forwards import checkpoint
from tests.support.own_code import MODELS, assert_same, inputs, output, right_padding, text

transformers = pytest.importorskip("transformers")

LENGTHS = [15, 9, 4]


@pytest.fixture(scope="module", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def pair(name: str) -> tuple[Any, Any]:
    return MODELS[name].pair()


@torch.no_grad()
def test_text(name: str, pair: tuple[Any, Any]) -> None:
    expected, made = (output(model, **inputs(name, text())) for model in pair)
    assert_same(made, expected)


@pytest.mark.parametrize("side", ["right", "left"])
@torch.no_grad()
def test_padding(name: str, pair: tuple[Any, Any], side: str) -> None:
    mask = right_padding(LENGTHS)
    mask = mask.flip(1) if side == "left" else mask
    told = inputs(name, text(), mask)
    made = output(pair[1], **told)
    # Of a decoder that reads another text every token is real.
    real = torch.ones(made.shape[:2]).bool() if MODELS[name].encodes else mask.bool()
    assert_same(made[real], expected_of_rows(name, pair[0], mask, made)[real])
    told["input_ids"] = torch.where(mask.bool(), told["input_ids"], 5)
    assert_same(output(pair[1], **told)[real], made[real], 1e-6)


def expected_of_rows(name: str, model: Any, mask: Tensor, like: Tensor) -> Tensor:
    """Each row alone and without padding, as transformers computes it.

    Its own padded batch is right too, but for the causal XLNet: `attn_mask += data_mask` in
    XLNetModel.forward adds one mask for each row to a mask for all, and raises.
    """
    expected = torch.zeros_like(like)
    for row, kept in enumerate(mask.bool()):
        told = {key: x[row : row + 1] for key, x in inputs(name, text()).items()}
        alone = {key: x if key.startswith("decoder") else x[:, kept] for key, x in told.items()}
        computed = output(model, **alone)[0]
        expected[row, slice(None) if MODELS[name].encodes else kept] = computed
    return expected


def test_gradients(name: str, pair: tuple[Any, Any]) -> None:
    mask = None if "causal" in name else right_padding(LENGTHS)
    real = 1 if mask is None or MODELS[name].encodes else mask[..., None]
    gradients = []
    for model in pair:
        model.zero_grad()
        (output(model, **inputs(name, text(), mask)) * real).square().sum().backward()
        of_model = {key: x.grad for key, x in model.named_parameters() if x.grad is not None}
        gradients.append(of_model)
    expected, made = gradients
    assert made.keys() == expected.keys()
    largest = max(x.abs().max() for x in expected.values())
    for key, gradient in expected.items():
        # Some are zero, but for rounding: a number that softmax does not see.
        scale = gradient.abs().max() + 1e-2 * largest
        apart = (made[key] - gradient).abs().max() / scale
        assert apart < 2e-5, f"{key}: {apart:.1e}"


@torch.no_grad()
def test_detaching_leaves_no_trace(name: str) -> None:
    model = MODELS[name].build()
    told = inputs(name, text())
    expected, config = output(model, **told), model.config.to_dict()
    attributes = {key: dict(vars(module)) for key, module in model.named_modules()}
    weights = list(model.state_dict())
    pe.attach(model)
    assert list(model.state_dict()) == weights
    pe.detach(model)
    assert torch.equal(output(model, **told), expected)
    assert model.config.to_dict() == config
    for key, module in model.named_modules():
        for attribute, value in vars(module).items():
            assert attributes[key][attribute] is value, f"{key}.{attribute}"
        assert vars(module).keys() == attributes[key].keys()


@torch.no_grad()
def test_a_copy_goes_on_by_itself(name: str) -> None:
    model, told = MODELS[name].build(), inputs(name, text())
    plain = output(model, **told)
    pe.attach(model)
    expected = output(model, **told)
    copies = deepcopy(model), pickle.loads(pickle.dumps(model))
    for parameter in model.parameters():
        parameter.zero_()
    for copied in copies:
        assert torch.equal(output(copied, **told), expected)
        pe.detach(copied)
        assert torch.equal(output(copied, **told), plain)
    assert model.config._attn_implementation == "posenc"


# Transformers cannot checkpoint XLNet.
@pytest.mark.parametrize("name", [name for name in MODELS if "xlnet" not in name])
def test_checkpointed_layers_have_the_same_gradients(name: str) -> None:
    model = MODELS[name].build().train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    pe.attach(model)
    gradients = []
    for checkpointed in (False, True):
        if checkpointed:
            checkpoint(model)
        model.zero_grad()
        output(model, **inputs(name, text())).square().sum().backward()
        gradients.append([x.grad for x in model.parameters()])
    for plain, again in zip(*gradients, strict=True):
        assert (plain is None) == (again is None)
        assert plain is None or torch.equal(plain, again)


@pytest.mark.parametrize("trains", [False, True])
def test_no_number_is_held_for_every_pair(name: str, trains: bool) -> None:
    # The longest rows of all else are the model's 97 words, of 4 bytes each.
    length = 832
    longer = {"mpt": {"max_seq_len": length}}
    model = MODELS[name].build(**longer.get(name, {}))
    told = inputs(name, text(rows=1, length=length))
    if "causal" not in name:
        told["attention_mask"] = right_padding([length - 9], length)

    def compute() -> None:
        with torch.set_grad_enabled(trains):
            made = output(model, **told)
        if trains:
            made.square().mean().backward()

    expected = largest_allocation(compute)
    assert expected >= 4 * length**2
    pe.attach(model)
    # Less than a byte, as a mask has.
    assert largest_allocation(compute) < length**2
