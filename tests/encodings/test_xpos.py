"""xPos: far from the origin, with a short q beside a long k, and what it refuses."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import posenc as pe
from posenc import CacheError, Positions, SettingError, UnsupportedError, XPos
from posenc.encoding import Pairs
from tests.support.oracles import drawing


def by_the_paper(encoding: XPos, q: Tensor, k: Tensor, at: Positions) -> Tensor:
    q, k = q.double(), k.double()
    rows = (side.position.double()[None] for side in (at.queries, at.keys))
    pairs = Pairs(*rows, q.shape[-1] ** -0.5)
    found = encoding.reference_scores(q, k, pairs)
    visible = at.visible()
    assert visible is not None
    return found.masked_fill(~visible, -torch.inf)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("first", [0, 200_000, 10_000_000])
def test_scores_are_right_far_from_the_origin(dtype: torch.dtype, first: int) -> None:
    draw, encoding = drawing(), XPos(32)
    q, k = (draw(1, 2, 40, 32).to(dtype) for _ in range(2))
    at = Positions.build(ids=torch.arange(first, first + 40), causal=True)
    actual = pe.scores(q, k, encoding, positions=at)
    torch.testing.assert_close(
        actual.double(), by_the_paper(encoding, q, k, at), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("span", [200_000, 2_000_000])
def test_scores_are_right_over_a_long_span(span: int) -> None:
    draw, encoding = drawing(), XPos(8)
    q, k = draw(1, 1, 2, 8).float(), draw(1, 1, 5, 8).float()
    ids = torch.tensor([0, span // 2, span - 1000, span - 10, span])
    at = Positions.build(2, ids=ids, causal=True)
    expected = by_the_paper(encoding, q, k, at)
    assert expected.isfinite().any(dim=-1).all()
    actual = pe.scores(q, k, encoding, positions=at).double()
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "last"), [(torch.float32, 36_260), (torch.bfloat16, 36_260), (torch.float16, 4_532)]
)
def test_a_key_factor_from_the_origin_would_overflow(dtype: torch.dtype, last: int) -> None:
    """What the logarithms are for: the first pair's own factor leaves the dtype's range."""
    zeta = torch.tensor(0.4 / 1.4, dtype=torch.float64)
    before, beyond = (zeta ** (-n / 512) for n in (last - 40, last + 40))
    assert before.to(dtype).isfinite()
    assert beyond.to(dtype).isinf()


def test_rotary_embedding_torch_decodes_from_another_centre() -> None:
    """It centres each tensor on its own middle, so 4 queries of 60 tokens are 28 tokens off."""
    peer = pytest.importorskip("rotary_embedding_torch")
    draw, encoding = drawing(), XPos(16, scale_base=64, layout="interleaved")
    q, k, v = (draw(1, 2, 60, 16) for _ in range(3))
    full = pe.attend(q, k, v, encoding, causal=True)[:, :, -4:]
    rotary = peer.RotaryEmbedding(
        16, use_xpos=True, xpos_scale_base=64, cache_if_possible=False
    ).double()
    past = torch.ones(4, 60).tril(56) > 0

    def theirs(turned_q: Tensor, turned_k: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(turned_q[:, :, -4:], turned_k, v, attn_mask=past)

    whole = theirs(*rotary.rotate_queries_and_keys(q, k))
    torch.testing.assert_close(whole, full, rtol=0, atol=1e-5)
    decoded = theirs(*rotary.rotate_queries_with_cached_keys(q[:, :, -4:], k))
    assert (decoded - full).abs().max() > 0.05
    ours = pe.attend(q[:, :, -4:], k, v, encoding, causal=True)
    torch.testing.assert_close(ours, full, rtol=0, atol=1e-12)


def test_factors_cancel_only_in_pairs_of_raw_keys() -> None:
    q = torch.randn(1, 2, 3, 8)
    with pytest.raises(CacheError, match=r'Cache\(policy="raw"\)'):
        pe.attend(q, q, q, XPos(8), causal=True, cache=pe.Cache("rotated"))
    with pytest.raises(UnsupportedError, match="XPos is defined for causal attention only"):
        pe.attend(q, q, q, XPos(8))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dim": 7}, r"XPos\(dim=7\)"),
        ({"dim": 8, "scale_base": 0}, r"scale_base=0.*greater than 0"),
        ({"dim": 8, "gamma": -1.0}, "gamma=-1.0"),
    ],
)
def test_settings_are_checked(settings: dict, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        XPos(**settings)
