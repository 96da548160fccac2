"""FoPE: without noise, with amplitudes of nothing, its fixed numbers, and keys cached turned."""

import pytest
import torch

import posenc as pe
from posenc import Cache, FoPE, Rotary, SettingError
from posenc.terms import Rotate
from tests.support.oracles import drawing


def test_without_noise_it_is_rope_above_the_floor() -> None:
    """A frequency of zero leaves the rest as it is, as RoPE's pairs that do not turn."""
    q, k, v = (drawing()(1, 2, 9, 16) for _ in range(3))
    plain = FoPE(16, length=64, gain=0.0, below="still")
    kept = plain.cos_coef.shape[1]
    assert kept == 3
    turned = [*range(kept), *range(8, 8 + kept)]
    rest = [i for i in range(16) if i not in turned]
    scores = pe.scores(q[..., turned], k[..., turned], Rotary(6, base=10_000.0**0.375), scale=1.0)
    scores = scores + q[..., rest] @ k[..., rest].mT
    torch.testing.assert_close(pe.scores(q, k, plain, scale=1.0), scores)
    # Ones in the rest are an eighth of a turn and a factor of sqrt(2), on both sides.
    ones = pe.scores(q, k, FoPE(16, length=64, gain=0.0), scale=1.0)
    torch.testing.assert_close(ones, scores + q[..., rest] @ k[..., rest].mT)
    assert pe.attend(q, k, v, plain).isfinite().all()


def test_an_amplitude_of_zero_is_a_key_of_zero() -> None:
    encoding = FoPE(4, length=7, gain=0.0)
    encoding.cos_coef.zero_(), encoding.sin_coef.zero_()
    q, k = drawing()(1, 1, 3, 4), drawing()(1, 1, 3, 4)
    one = [1, 3]
    expected = 2 * q[..., one] @ k[..., one].mT
    torch.testing.assert_close(pe.scores(q, k, encoding, scale=1.0), expected)


def test_coefficients_are_drawn_by_the_seed_kept_and_not_trained() -> None:
    ours, again, other = FoPE(16, 64, 4), FoPE(16, 64, 4), FoPE(16, 64, 4, seed=1)
    torch.testing.assert_close(ours.cos_coef, again.cos_coef, rtol=0, atol=0)
    assert not torch.equal(ours.cos_coef, other.cos_coef)
    assert set(ours.state_dict()) == {"cos_coef", "sin_coef"}
    assert not any(x.requires_grad for x in ours.parameters())
    assert ours.bfloat16().cos_coef.dtype == torch.float32


def test_keys_of_few_heads_are_cached_turned() -> None:
    draw, encoding = drawing(), FoPE(16, 64, heads=4, key_heads=2)
    q, k, v = draw(1, 4, 9, 16), draw(1, 2, 9, 16), draw(1, 2, 9, 16)
    cache, steps = Cache(), []
    for i in range(9):
        one = (x[:, :, i : i + 1] for x in (q, k, v))
        steps.append(pe.attend(*one, encoding, causal=True, cache=cache))
    whole = pe.attend(q, k, v, encoding, causal=True)
    torch.testing.assert_close(torch.cat(steps, dim=2), whole)
    (term,) = pe.lower(encoding, 9, causal=True).terms
    assert isinstance(term, Rotate)
    assert not term.grows


@pytest.mark.parametrize(
    "settings", [{"length": 6}, {"series": 9}, {"heads": 4, "key_heads": 3}, {"gain": -1.0}]
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(SettingError, match=r"FoPE\("):
        FoPE(**{"dim": 16, "length": 64, **settings})


@pytest.mark.parametrize("name", pe.encodings())
def test_every_encoding_can_be_made_where_there_are_no_numbers(name: str) -> None:
    """FoPE draws its own, and so counts on a CPU; its weights are the same wherever they are."""
    with torch.device("meta"):
        made = list(pe.encodings()[name].examples())
    for encoding in made:
        assert all(x.is_meta for x in encoding.parameters())
