"""LoRA beside weights, merged into them, and the model's own weights afterwards."""

import contextlib
from typing import Any

import pytest
import torch
from extend_models import tiny_model
from torch import Tensor, nn

from posenc.errors import UnsupportedError
from posenc.extend.tune.lora import adapters, merged, projections
from posenc.extend.tune.weights import replaced, trainable

EMBEDDED = "model.embed_tokens.weight"
IDS = torch.arange(40)[None] * 5 % 257


def logits(model: Any) -> Tensor:
    with torch.no_grad():
        return model(IDS).logits


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_same(model: nn.Module, before: dict[str, Tensor]) -> None:
    after = model.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def disturb(parameters: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    """Values as training could leave them; returns a copy by name."""
    drawn = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for x in parameters.values():
            x.add_(torch.empty_like(x).uniform_(-0.3, 0.3, generator=drawn))
    return {name: x.detach().clone() for name, x in parameters.items()}


def test_queries_and_values_of_every_layer() -> None:
    assert projections(tiny_model()) == tuple(
        f"model.layers.{layer}.self_attn.{name}"
        for layer in (0, 1)
        for name in ("q_proj", "v_proj")
    )


def test_lora_changes_nothing_before_it_is_trained() -> None:
    model = tiny_model()
    before = logits(model)
    with adapters(model, projections(model), 4, torch.Generator()) as parameters:
        assert len(parameters) == 8
        assert all(x.any() == (".lora_A." in name) for name, x in parameters.items())
        assert torch.equal(logits(model), before)
        disturb(parameters)
        assert not torch.allclose(logits(model), before, atol=1e-2)


def test_merged_weights_compute_what_lora_computes() -> None:
    model = tiny_model().double()
    before, own = state(model), logits(model)
    names = projections(model)
    with adapters(model, names, 4, torch.Generator()) as parameters:
        tensors = disturb(parameters)
        beside = logits(model)
    assert_same(model, before)
    with replaced(model, merged(model, names, 4, tensors)):
        torch.testing.assert_close(logits(model), beside, rtol=0, atol=1e-12)
    assert_same(model, before)
    assert torch.equal(logits(model), own)
    assert not torch.allclose(own, beside, atol=1e-2)


def test_lora_leaves_the_model_as_it_found_it() -> None:
    model = tiny_model()
    model.lm_head.requires_grad_(False)
    names, before = projections(model), state(model)
    modules, fields = dict(model.named_modules()), set(vars(model))
    weights = {name: (x, x.requires_grad) for name, x in model.named_parameters()}
    # The second time as the first: nothing of peft's stays behind.
    for _ in range(2):
        with (
            contextlib.suppress(KeyboardInterrupt),
            adapters(model, names, 4, torch.Generator()) as new,
        ):
            trained = {x for x in model.parameters() if x.requires_grad}
            assert trained == set(new.values())
            disturb(new)
            raise KeyboardInterrupt
        assert_same(model, before)
        assert dict(model.named_modules()) == modules
        assert set(vars(model)) == fields
        for name, x in model.named_parameters():
            assert (x is weights[name][0], x.requires_grad) == (True, weights[name][1]), name


def test_lora_is_drawn_from_its_generator_alone() -> None:
    model, drawn = tiny_model(), []
    for seed, others in ((3, 0), (3, 1), (4, 1)):
        torch.manual_seed(others)
        shared = torch.get_rng_state()
        begun = torch.Generator().manual_seed(seed)
        with adapters(model, projections(model), 4, begun) as parameters:
            drawn.append([x.detach().clone() for x in parameters.values()])
        assert torch.equal(torch.get_rng_state(), shared)
    first, same, other = drawn
    assert all(torch.equal(a, b) for a, b in zip(first, same, strict=True))
    assert not torch.equal(first[0], other[0])


@pytest.mark.parametrize("tied", [False, True])
def test_all_weights_are_the_models_own_again(tied: bool) -> None:
    model = tiny_model(tie_word_embeddings=tied).requires_grad_(False)
    before = state(model)
    with trainable(model) as parameters:
        assert all(x.requires_grad for x in model.parameters())
        disturb(parameters)
        model(IDS).logits.sum().backward()
        assert not torch.equal(model.model.embed_tokens.weight, before[EMBEDDED])
    assert_same(model, before)
    assert not any(x.requires_grad or x.grad is not None for x in model.parameters())


def test_attention_without_such_layers_is_refused() -> None:
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    config = DeepseekV3Config(
        vocab_size=16, hidden_size=16, intermediate_size=16, moe_intermediate_size=8,
        num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, n_routed_experts=8,
        n_group=4, topk_group=2, kv_lora_rank=8, q_lora_rank=8, qk_rope_head_dim=4,
        qk_nope_head_dim=4, v_head_dim=4, first_k_dense_replace=1,
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match=r"attention of deepseek_v3 .* --tune-rank full"):
        projections(DeepseekV3ForCausalLM(config))
