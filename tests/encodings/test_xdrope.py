"""HunYuan-VL's sections, in transformers and by its makers."""

import pytest
import torch

from posenc import MRoPE


def test_hunyuan_vl_turns_pairs_by_two_axes_in_transformers() -> None:
    """Its sections count dimensions there; its makers' code, and vLLM's, count pairs."""
    code = pytest.importorskip("transformers.models.hunyuan_vl.modeling_hunyuan_vl")
    sections = (2, 2, 2, 2)
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": list(sections)}
    rotary = code.HunYuanVLRotaryEmbedding(
        code.HunYuanVLTextConfig(head_dim=16, rope_parameters=rope)
    )
    axis_of = torch.arange(4).view(4, 1, 1, 1).repeat(1, 1, 1, 8)
    one, two = rotary.recomposition_frequencies(axis_of)[0, 0].view(2, 8)
    assert not (one == two).any()
    at = torch.arange(4.0)[None, None].expand(1, 1, 4)
    turned = MRoPE(16, sections, base=1.0).angles(at)[0, 0, 0]
    assert turned.tolist() == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    # On text they are the same.
    cos, _ = rotary(torch.zeros(1), torch.arange(9).view(1, 1, 9))
    ours = MRoPE(16, sections).angles(torch.arange(9)).cos()[0, 0].float()
    torch.testing.assert_close(cos[0], ours.repeat(1, 2))
