"""The scalings of rotary frequencies: settings, lengths, numbers."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, Rotary, SettingError, rotate
from posenc.encodings.scaling import Scaling
from tests.support.exact_waves import worst_wave
from tests.support.oracles import drawing

DIM = 64
DIVISORS = [1 + i / 7 for i in range(DIM // 2)]
LONG = pe.LongRoPE(DIVISORS[::-1], DIVISORS, original_length=8, factor=4.0)
SCALINGS: list[Scaling] = [
    pe.Linear(4.0),
    pe.NTK(8.0),
    pe.DynamicNTK(2.0, original_length=8),
    pe.YaRN(16.0, 4096),
    pe.YaRN(16.0, 4096, truncate=False, beta_fast=20.0, beta_slow=2.0),
    pe.YaRN(16.0, 4096, ramp="paper"),
    # So short that every pair turns less than once: a ramp without width.
    pe.YaRN(4.0, 6, beta_slow=0.9, beta_fast=0.95),
    LONG,
    pe.Llama3(8.0, 1.0, 4.0, original_length=8192),
    # Llama 4 Scout: a step instead of a ramp.
    pe.Llama3(16.0, 1.0, 1.0, original_length=8192),
    pe.Proportional(0.3),
]
# The first one's gain is no part of its rotation.
BESIDE = [
    pe.DynamicYaRN(8, ramp="paper"),
    pe.DynamicYaRN(8, 2.0, beta_fast=1.0, beta_slow=0.2, attention_factor=1.1),
    pe.Resonance(),
    pe.Resonance(pe.YaRN(16.0, 4096)),
    pe.Resonance(pe.Proportional(0.3)),
]
BY_LENGTH = [scaling for scaling in SCALINGS if scaling.length_dependent]


def named(scaling: Scaling | None) -> str:
    return repr(scaling).replace(str(tuple(DIVISORS)), "").replace(str(tuple(DIVISORS[::-1])), "")


def of_length(length: int) -> Tensor:
    return torch.tensor([length])


@pytest.mark.parametrize("scaling", [*SCALINGS, *BESIDE], ids=named)
def test_frequencies_are_those_of_the_reference(scaling: Scaling) -> None:
    rope = Rotary(DIM, base=500_000.0, scaling=scaling)
    for length in (1, 8, 9, 300):
        expected = [scaling.reference(i, 500_000.0, DIM, length) for i in range(DIM // 2)]
        actual = rope.frequencies(of_length(length))
        torch.testing.assert_close(actual, actual.new_tensor(expected), rtol=1e-13, atol=0)


@pytest.mark.parametrize("scaling", [*SCALINGS, *BESIDE], ids=named)
def test_the_repr_evaluates_to_an_equal_rotary(scaling: Scaling) -> None:
    rope = Rotary(DIM, scaling=scaling)
    names = {name: getattr(pe, name) for name in pe.__all__}
    made = eval(repr(rope), names)
    assert made.scaling == scaling
    assert hash(made.scaling) == hash(scaling)
    assert repr(made) == repr(rope)


def test_no_scaling_but_another_base_is_llama_2_long() -> None:
    expected = 500_000.0 ** -(torch.arange(0, DIM, 2).double() / DIM)
    torch.testing.assert_close(Rotary(DIM, base=500_000.0).frequencies(), expected)


def test_ntk_keeps_the_fastest_pair_and_interpolates_the_slowest() -> None:
    plain = Rotary(DIM).frequencies()
    ratio = Rotary(DIM, scaling=pe.NTK(8.0)).frequencies() / plain
    assert ratio[0] == 1.0
    torch.testing.assert_close(ratio[-1], plain.new_tensor(1 / 8))


def test_dynamic_ntk_grows_from_the_original_length_on() -> None:
    once = Rotary(DIM, scaling=pe.DynamicNTK(1.0, original_length=8))
    for length in (1, 8):
        assert torch.equal(once.frequencies(of_length(length)), Rotary(DIM).frequencies())
    assert torch.equal(once.frequencies(), Rotary(DIM).frequencies())
    # A factor of 1 is NTK by how much longer the input is; a factor of 2 at 4 times counts 7.
    for factor, grown in ((1.0, 4.0), (2.0, 7.0)):
        dynamic = Rotary(DIM, scaling=pe.DynamicNTK(factor, original_length=8))
        expected = Rotary(DIM, scaling=pe.NTK(grown)).frequencies()
        torch.testing.assert_close(dynamic.frequencies(of_length(32)), expected)


def test_llama3_is_the_ramp_of_yarns_paper() -> None:
    yarn = pe.YaRN(8.0, 8192, beta_slow=1.0, beta_fast=4.0, ramp="paper")
    llama = pe.Llama3(8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_length=8192)
    frequencies = [Rotary(128, scaling=scaling).frequencies() for scaling in (yarn, llama)]
    assert torch.equal(*frequencies)
    assert (yarn.gain > 1.0, llama.gain) == (True, 1.0)


def test_yarns_code_and_paper_differ() -> None:
    """Up to 67 % in a pair, for dimension 128, 4,096 tokens and a factor of 16."""
    code, paper = (
        Rotary(128, scaling=pe.YaRN(16.0, 4096, ramp=ramp)).frequencies()
        for ramp in ("code", "paper")
    )
    assert (1 - paper / code).max() == pytest.approx(0.67, abs=0.005)


def test_proportional_is_not_partial() -> None:
    some = Rotary(8, scaling=pe.Proportional(0.5)).frequencies()
    assert (some == 0).tolist() == [False, False, True, True]
    assert torch.equal(some[:2], Rotary(8).frequencies()[:2])
    assert not torch.allclose(some[:2], Rotary(8, rotary_dim=4).frequencies())
    whole = Rotary(8, scaling=pe.Proportional(1.0)).frequencies()
    assert torch.equal(whole, Rotary(8).frequencies())


def test_gains() -> None:
    log = 0.1 * torch.tensor(16.0).double().log().item()
    for options, gain in (
        ({}, 1 + log),
        ({"mscale": 1.2, "mscale_all_dim": 0.7}, (1 + 1.2 * log) / (1 + 0.7 * log)),
        # Final, as in transformers: in YaRN's own code it would multiply 1 + log.
        ({"attention_factor": 1.3}, 1.3),
    ):
        assert pe.YaRN(16.0, 4096, **options).gain == pytest.approx(gain, rel=1e-15)
    assert pe.YaRN(1.0, 4096).gain == 1.0
    assert LONG.gain == pytest.approx((1 + 2 / 3) ** 0.5, rel=1e-15)
    assert pe.LongRoPE([1.0], [1.0], 8, 4.0, attention_factor=1.5).gain == 1.5


def test_the_gain_reaches_turned_dimensions_alone() -> None:
    q = drawing(1)(1, 1, 3, DIM)
    scaling = pe.YaRN(16.0, 4096)
    turned = rotate(q, q, Rotary(DIM, rotary_dim=16, scaling=scaling))[0]
    assert torch.equal(turned[..., 16:], q[..., 16:])
    norms = [x[..., :16].norm(dim=-1) for x in (turned, q)]
    torch.testing.assert_close(norms[0], scaling.gain * norms[1])


def test_settings_decide_what_is_claimed() -> None:
    for scaling in (None, *SCALINGS):
        tags = Rotary(DIM, scaling=scaling).tags
        by_length = scaling in BY_LENGTH
        assert tags.norm_preserving == (scaling is None or scaling.gain == 1.0)
        assert (tags.length_dependent, tags.needs_extent) == (by_length, by_length)
        assert tags.translation_invariant != by_length
    assert Rotary.tags == Rotary(DIM).tags


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pe.Linear(0.5), r"Linear\(factor=0.5\): factor .* at least 1"),
        (lambda: pe.NTK(float("nan")), r"NTK\(factor=nan\): factor .* at least 1"),
        (lambda: pe.DynamicNTK(0.9, 8), r"factor=0.9.*at least 1"),
        (lambda: pe.DynamicNTK(2.0, 0), r"original_length=0\) needs original_length"),
        (lambda: pe.YaRN(4.0), r"YaRN\(factor=4.0, .* needs original_length: how many tokens"),
        (lambda: pe.YaRN(4.0, 64, beta_fast=0.5), r"0 < beta_slow <= beta_fast"),
        (lambda: pe.YaRN(4.0, 64, beta_slow=0.0), r"0 < beta_slow <= beta_fast"),
        (lambda: pe.YaRN(4.0, 64, ramp="line"), r"ramp='line'.*'code' or 'paper'"),
        (lambda: pe.YaRN(4.0, 64, mscale=1.0), r"mscale_all_dim alone means; give both"),
        (lambda: pe.YaRN(4.0, 64, attention_factor=0.0), r"attention_factor must be greater"),
        (lambda: pe.LongRoPE([1.0], [1.0], 1, 4.0), r"ln\(original_length\)"),
        (lambda: pe.LongRoPE([1.0], [1.0], 8, 0.5), r"factor=0.5.*at least 1"),
        (lambda: pe.LongRoPE([1.0, 0.0], [1.0, 1.0], 8, 4.0), r"LongRoPE\(short=0.0\)"),
        (lambda: pe.LongRoPE([1.0], [1.0], 8, 4.0, -1.0), r"attention_factor=-1.0"),
        (lambda: pe.Llama3(8.0, 4.0, 1.0, 64), r"0 < low_freq_factor <= high_freq_factor"),
        (lambda: Rotary(2, scaling=pe.NTK(2.0)), r"turns 2 dimensions: .* needs 4 or more"),
        (lambda: Rotary(2, scaling=pe.DynamicNTK(2.0, 8)), r"needs 4 or more"),
        (lambda: pe.DynamicYaRN(0), "needs original_length"),
        (lambda: pe.DynamicYaRN(8, ramp="line"), "ramp='line'"),
        (lambda: Rotary(128, scaling=pe.DynamicYaRN(4)), "run backwards"),
        (
            lambda: Rotary(8, rotary_dim=4, scaling=pe.DynamicYaRN(64)),
            "some dimensions would not turn here: give attention_factor",
        ),
        (lambda: pe.Resonance(4.0), "this is no scaling"),
        (lambda: Rotary(6, scaling=pe.Resonance(LONG)), "32 short and 32 long"),
        (lambda: Rotary(6, scaling=LONG), r"32 short and 32 long divisors .* turns 6 .*, 3, is"),
        (lambda: Rotary(DIM, rotary_dim=6, scaling=LONG), r"turns 6 dimensions"),
        (lambda: Rotary(128, scaling=pe.YaRN(4.0, 4)), r"run backwards; ramp='paper'"),
        (lambda: Rotary(8, base=1.0, scaling=pe.YaRN(4.0, 64)), r"run backwards"),
        (lambda: Rotary(8, scaling=pe.Proportional(0.1)), r"at least 0.25, so that a pair turns"),
        (lambda: Rotary(8, scaling=pe.Proportional(1.5)), r"fraction is at most 1"),
    ],
)
def test_bad_settings_say_the_rule_and_the_values(make, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make()


def test_the_papers_ramp_has_a_meaning_where_the_codes_has_none() -> None:
    rope = Rotary(128, scaling=pe.YaRN(4.0, 4, ramp="paper"))
    assert torch.equal(rope.frequencies(), Rotary(128).frequencies() / 4)


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("scaling", [None, *SCALINGS], ids=named)
def test_waves_are_right_far_out(scaling: Scaling | None) -> None:
    """One rounding to float32 up to 1e8; at 2**31 - 1 what a float64 angle still holds."""
    rope, rule = Rotary(DIM, scaling=scaling), scaling or Scaling()
    x = torch.cat((torch.ones(DIM // 2), torch.zeros(DIM // 2))).view(1, 1, 1, DIM)
    for dtype in (torch.float32, torch.bfloat16):
        # Casting the module changes no table.
        lowered = [
            pe.lower(rope.to(dtype), Positions.build(ids=torch.tensor([position])))
            for position in (10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 2**31 - 1)
        ]
        for terms in lowered:
            waves = torch.cat(terms.form.q_waves).view(2, -1)
            position = int(terms.positions.queries.position)
            assert waves.dtype == torch.float32
            allowed = 6e-8 if position <= 10**8 else 4e-7
            # Beyond 1 float32 is coarser.
            assert worst_wave(waves, position, rope, rule) <= allowed * max(1.0, rule.gain)
    turned = rotate(x, x, rope, positions=lowered[0].positions)[0].view(2, -1)
    assert worst_wave(turned, 10**3, rope, rule) <= 6e-8 * max(1.0, rule.gain)


@pytest.mark.parametrize("scaling", BY_LENGTH, ids=named)
def test_low_precision_rounds_inputs_and_outputs_alone(scaling: Scaling) -> None:
    """What the public suite asks of encodings that need no extent."""
    at = Positions.build(ids=torch.arange(4_096, 4_105))
    rope = Rotary(DIM, scaling=scaling)
    q, k = (drawing(seed)(2, 2, 9, DIM).bfloat16() for seed in (1, 2))
    expected = pe.scores(q.double(), k.double(), rope, positions=at)
    actual = pe.scores(q, k, rope.bfloat16(), positions=at)
    torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scaling", BY_LENGTH, ids=named)
def test_each_row_and_document_is_scaled_by_its_own_length(scaling: Scaling) -> None:
    rope, q = Rotary(DIM, scaling=scaling), drawing(4)(2, 1, 20, DIM)
    mask = torch.ones(2, 20)
    mask[1, 5:] = 0
    both = rotate(q, q, rope, positions=Positions.build(attention_mask=mask))[0]
    short = rotate(q[1:, :, :5], q[1:, :, :5], rope)[0]
    torch.testing.assert_close(both[1:, :, :5], short)
    torch.testing.assert_close(both[:1], rotate(q[:1], q[:1], rope)[0])
    packed = rotate(q, q, rope, positions=Positions.build(lengths=[5, 15]))[0]
    torch.testing.assert_close(packed[1:, :, :5], short)
    # An extent stands in for all of them.
    fixed = Positions.build(lengths=[5, 15], extent=20)
    assert not torch.allclose(rotate(q, q, rope, positions=fixed)[0][1:, :, :5], short)
    with pytest.raises(pe.PositionsError, match=r"pass Positions\.build"):
        rotate(q, q, rope, positions=torch.arange(20))


@pytest.mark.parametrize("scaling", BY_LENGTH, ids=named)
def test_decoding_needs_the_final_length(scaling: Scaling) -> None:
    rope = Rotary(DIM, scaling=scaling)
    q, k, v = (drawing(seed)(2, 2, 12, DIM) for seed in (1, 2, 3))
    for policy in ("rotated", "raw"):
        with pytest.raises(pe.CacheError, match=r"give the final one, Cache\(length=...\)"):
            pe.attend(q, k, v, rope, causal=True, cache=pe.Cache(policy))
        cache = pe.Cache(policy, length=16)
        steps = [
            pe.attend(q[:, :, at], k[:, :, at], v[:, :, at], rope, causal=True, cache=cache)
            for at in (slice(0, 5), slice(5, 6), slice(6, 12))
        ]
        full = Positions.build(12, causal=True, extent=16)
        expected = pe.attend(q, k, v, rope, positions=full)
        torch.testing.assert_close(torch.cat(steps, dim=2), expected)


@pytest.mark.parametrize("scaling", BY_LENGTH)
def test_lowered_terms_of_growing_length_are_not_cached(scaling: Scaling) -> None:
    rope = Rotary(DIM, scaling=scaling)
    x = torch.randn(1, 1, 1, DIM)
    for cache, extent in ((pe.Cache(), None), (pe.Cache(), 20), (pe.Cache(length=20), None)):
        lowered = pe.lower(rope, Positions.build(1, extent=extent, causal=True))
        with pytest.raises(pe.CacheError, match=r"final one to both.*extent"):
            pe.attend(x, x, x, lowered, cache=cache)
    lowered = pe.lower(rope, Positions.build(1, extent=20, causal=True))
    assert pe.attend(x, x, x, lowered, cache=pe.Cache(length=20)).shape == x.shape


@pytest.mark.unchecked
def test_a_name_is_no_scaling() -> None:
    with pytest.raises(SettingError, match=r"give one such as YaRN\(4, 4096\)"):
        pe.Rotary(8, scaling="yarn")
