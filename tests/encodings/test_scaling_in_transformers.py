"""Where transformers scales rotary frequencies otherwise."""

import pytest
import torch

import posenc as pe
from posenc import Positions, Rotary
from posenc.encodings.scaling import Scaling
from tests.support.exact_waves import worst_wave

DIM = 64


def llama_waves(**words: object) -> torch.nn.Module:
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    sizes = {"hidden_size": 2 * DIM, "num_attention_heads": 2, "max_position_embeddings": 8}
    words = {"rope_theta": 10_000.0, **words}
    return LlamaRotaryEmbedding(transformers.LlamaConfig(**sizes, rope_parameters=words))


def test_transformers_scales_a_short_row_by_its_longest_batch_mate() -> None:
    waves = llama_waves(rope_type="dynamic", factor=2.0)
    at = torch.stack([torch.arange(5), torch.arange(5) + 35])
    alone, beside = waves(torch.zeros(1), at[:1])[0], waves(torch.zeros(1), at)[0]
    assert (alone - beside[:1]).abs().max() > 0.1
    rope = Rotary(DIM, scaling=pe.DynamicNTK(2.0, original_length=8))
    alone, beside = (
        pe.lower(rope, Positions.build(ids=ids)).form.q_waves[0][:, 0] for ids in (at[:1], at)
    )
    assert torch.equal(alone[0], beside[0])
    # The long row is what both make of it.
    torch.testing.assert_close(beside[1], waves(torch.zeros(1), at[1:])[0][0, :, : DIM // 2])


def test_transformers_ignores_yarns_truncate_where_layers_have_types() -> None:
    """It looks for it beside the layer types: gpt-oss's False becomes True."""
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    words = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 16.0, "truncate": False}
    words["original_max_position_embeddings"] = 4096
    plain = {"rope_type": "default", "rope_theta": 10_000.0}
    nested = transformers.Gemma3TextConfig(
        head_dim=DIM,
        max_position_embeddings=1 << 16,
        rope_parameters={"full_attention": words, "sliding_attention": plain},
    )
    found, _ = ROPE_INIT_FUNCTIONS["yarn"](nested, layer_type="full_attention")
    asked, other = (
        Rotary(DIM, scaling=pe.YaRN(16.0, 4096, truncate=truncate)).frequencies()
        for truncate in (False, True)
    )
    torch.testing.assert_close(found.double(), other, rtol=1e-6, atol=0)
    assert (asked / other - 1).abs().max() > 0.05


@pytest.mark.usefixtures("unhooked")
def test_transformers_loses_far_positions_to_float32() -> None:
    waves = llama_waves(rope_type="default")(torch.zeros(1), torch.tensor([[10**6]]))
    found = torch.stack([wave[0, 0, : DIM // 2] for wave in waves])
    assert worst_wave(found, 10**6, Rotary(DIM), Scaling()) > 1e-2
