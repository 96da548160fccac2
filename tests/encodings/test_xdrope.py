"""HunYuan-VL's sections, in transformers and by its makers."""

import pytest
import torch

from posenc import MRoPE, Positions, rotate


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


def test_what_transformers_does_to_images_of_hunyuan_vl_is_no_rotation() -> None:
    """Norms change, and so do scores of tokens that move together. Its makers' keep both."""
    code = pytest.importorskip("transformers.models.hunyuan_vl.modeling_hunyuan_vl")
    sections = (2, 2, 2, 2)
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": list(sections)}
    rotary = code.HunYuanVLRotaryEmbedding(
        code.HunYuanVLTextConfig(head_dim=16, rope_parameters=rope)
    )
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, 5, 16).unbind()
    at = torch.tensor([[3, 1, 4, 1], [5, 9, 2, 6], [0, 0, 0, 0], [2, 7, 1, 8], [4, 4, 4, 4]])

    def theirs(at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = rotary(torch.zeros(1), at.T[:, None])
        return code.apply_rotary_pos_emb(q, k, cos, sin)

    def ours(at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return rotate(q, k, MRoPE(16, sections), positions=Positions.build(ids=at[None]))

    moved = at + torch.tensor([1, 2, 3, 5])
    for turn, rotates in ((theirs, False), (ours, True)):
        (one, key), (other, other_key) = turn(at), turn(moved)
        kept = torch.allclose(one.norm(dim=-1), q.norm(dim=-1), atol=1e-4)
        alike = torch.allclose(one @ key.mT, other @ other_key.mT, atol=1e-3)
        assert (kept, alike) == (rotates, rotates)
    # Where all axes are one, as in text, both are the same.
    text = torch.arange(5)[:, None].expand(5, 4)
    torch.testing.assert_close(theirs(text)[0], ours(text)[0], atol=1e-5, rtol=0)
