"""Distance biases: settings, conventions on which implementations disagree, and their limits."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import FIRE, KERPLE, ALiBi, Positions, Sandwich, T5Bias, attend, lower, scores
from posenc.errors import PositionsError, SettingError
from posenc.mask_rules import Prefix
from posenc.terms import DenseBias, DistanceTable, Mask, Network, Slope
from tests.support.oracles import drawing


def bias_of(encoding: pe.Encoding, positions: Positions) -> Tensor:
    """What an encoding adds to scores, alone: content is zero."""
    q = torch.zeros(1, encoding.heads or 1, positions.q_len, 4, dtype=torch.float64)
    k = torch.zeros(1, encoding.heads or 1, positions.k_len, 4, dtype=torch.float64)
    return scores(q, k, encoding, positions=positions)


@pytest.mark.parametrize("heads", range(1, 33))
def test_slopes_are_those_of_bloom_and_mpt(heads: int) -> None:
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    mpt = pytest.importorskip("transformers.models.mpt.modeling_mpt")
    slopes = torch.tensor(ALiBi(heads).slope_values(), dtype=torch.float64)
    by_bloom = bloom.build_alibi_tensor(torch.ones(1, 2), heads, torch.float64)
    torch.testing.assert_close(slopes, by_bloom[:, 0, 1], rtol=1e-6, atol=0)
    by_mpt = mpt.build_mpt_alibi_tensor(heads, 2)
    torch.testing.assert_close(slopes, -by_mpt[:, 0, 0].double(), rtol=1e-6, atol=0)


@pytest.mark.newer
def test_attention_gym_has_other_slopes_for_12_heads() -> None:
    """It takes the paper's sentence for any number of heads, where the authors' code does not."""
    gym = pytest.importorskip("attn_gym.mods")
    none, h = torch.zeros((), dtype=torch.float64), torch.arange(12)
    theirs = -gym.generate_alibi_bias(12)(none, None, h, torch.tensor(1), torch.tensor(0)).double()
    ours, sentence = ALiBi(12).slope_values(), ALiBi(12, slopes="geometric").slope_values()
    torch.testing.assert_close(theirs, torch.tensor(sentence).double(), rtol=1e-6, atol=0)
    assert ours[:8] == [2.0**-n for n in range(1, 9)]
    assert ours[8:] == [2.0 ** -(n + 0.5) for n in range(4)]
    assert (theirs - torch.tensor(ours)).abs().max() > 0.1


def test_the_bias_of_falcon_is_rounded_to_bfloat16() -> None:
    falcon = pytest.importorskip("transformers.models.falcon.modeling_falcon")
    length, scale = 2_000, 0.25
    theirs = falcon.build_alibi_tensor(torch.ones(1, length).long(), 12, torch.float64)
    q, k = (torch.zeros(1, 12, n, 16, dtype=torch.float64) for n in (1, length))
    ours = scores(q, k, ALiBi(12, inside=True), causal=True)[0]
    outside = scores(q, k, ALiBi(12), causal=True)[0]
    torch.testing.assert_close(ours, outside * scale, rtol=1e-15, atol=0)
    # Falcon counts from the first key, which a softmax cannot tell from counting to the query.
    off = ((theirs - theirs[..., -1:]) * scale - ours).abs().amax(dim=(1, 2))
    assert 2.0 < off.max() < 2.5
    # bfloat16 near 2,000 counts in eights, so that the 8 nearest keys share two biases.
    assert (theirs[0, 0, -8:].unique().numel(), ours[0, 0, -8:].unique().numel()) == (2, 8)


def test_slopes_ahead_and_behind() -> None:
    made = ALiBi(2, slopes=[0.5, 0.25], future=3.0)
    (term,) = lower(made, 4).terms
    assert isinstance(term, Slope)
    bias = bias_of(made, Positions.build(3))[0]
    behind, ahead = 0.5, 1.5
    expected = [[0, -ahead, -2 * ahead], [-behind, 0, -ahead], [-2 * behind, -behind, 0]]
    assert bias[0].tolist() == expected
    assert torch.equal(bias[1], bias[0] / 2)
    assert repr(made) == (
        "ALiBi(heads=2, slopes=(0.5, 0.25), future=3.0, learned=False, inside=False, axes=1)"
    )


@pytest.mark.parametrize("future", [None, 0.5])
def test_learned_slopes_start_as_given_and_stay_positive_float32(future: float | None) -> None:
    made = ALiBi(12, future=future, learned=True)
    assert made.log_slope is not None
    assert made.log_slope.shape == (1 if future is None else 2, 12)
    at = Positions.build(40)
    expected = bias_of(ALiBi(12, future=future), at)
    torch.testing.assert_close(bias_of(made, at), expected, rtol=1e-6, atol=0)
    made.bfloat16()
    assert made.log_slope.dtype == torch.float32
    torch.testing.assert_close(bias_of(made, at), expected, rtol=1e-6, atol=0)
    with torch.no_grad():
        made.log_slope -= 30.0
    assert (bias_of(made, at)[..., 1, 0] < 0).all()
    assert not list(ALiBi(12).parameters())


def test_with_two_axes_the_distance_is_euclidean() -> None:
    ids = torch.tensor([[[0, 0], [3, 4], [6, 8], [0, 5]]])
    made = ALiBi(1, slopes=[1.0], axes=2)
    (term,) = lower(made, Positions.build(ids=ids)).terms
    assert isinstance(term, DenseBias)
    assert bias_of(made, Positions.build(ids=ids))[0, 0, 0].tolist() == [0, -5, -10, -5]
    # One coordinate per token, as in text, needs no matrix.
    assert isinstance(lower(made, 4).terms[0], Slope)
    with pytest.raises(PositionsError, match="reads 2 coordinates per token"):
        lower(made, Positions.build(ids=torch.zeros(1, 4, 3).long()))
    with pytest.raises(PositionsError, match="one coordinate per token"):
        bias_of(ALiBi(1), Positions.build(ids=ids))


def test_real_positions_keep_the_closed_form() -> None:
    at = Positions.build(ids=torch.tensor([0.0, 0.5, 2.25]).double())
    assert bias_of(ALiBi(1, slopes=[2.0]), at)[0, 0, 2].tolist() == [-4.5, -3.5, 0]


# By what the error says; types are checked by the test-time hook as well.
SETTINGS: dict[str, Callable[[], object]] = {
    r"ALiBi\(heads=0\)": lambda: ALiBi(0),
    r"slopes are 'press' or 'geometric', or 4 numbers": lambda: ALiBi(4, slopes=[1.0, 2.0]),
    r"2 numbers greater than 0": lambda: ALiBi(2, slopes=[1.0, 0.0]),
    r"ALiBi\(future=0.0\)": lambda: ALiBi(4, future=0.0),
    r"ALiBi\(axes=2, future=0.5.*no key is ahead": lambda: ALiBi(4, axes=2, future=0.5),
    r"stands outside the scale": lambda: ALiBi(4, axes=2, inside=True),
    r"KERPLE\(kind='linear'\): kind is 'log' or 'power'": lambda: KERPLE(4, kind="linear"),
    r"Sandwich\(dim=7\).*must be even": lambda: Sandwich(4, dim=7),
    r"Sandwich\(base=-1.0\)": lambda: Sandwich(4, base=-1.0),
    r"FIRE\(width=0\)": lambda: FIRE(4, width=0),
    r"FIRE\(initial_c=0.0\)": lambda: FIRE(4, initial_c=0.0),
    r"FIRE\(initial_threshold=-2.0\)": lambda: FIRE(4, initial_threshold=-2.0),
}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("said", SETTINGS)
def test_settings_that_have_no_meaning(said: str) -> None:
    with pytest.raises(SettingError, match=said):
        SETTINGS[said]()


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_are_those_of_t5(bidirectional: bool) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    distance = torch.arange(-700, 701)
    for buckets, farthest in ((32, 128), (32, 20), (8, 20), (64, 512), (4, 3), (54, 125)):
        expected = t5.T5Attention._relative_position_bucket(
            distance, bidirectional, buckets, farthest
        )
        made = T5Bias(1, buckets, farthest, bidirectional)
        assert torch.equal(made.bucket(distance), expected), (buckets, farthest)


@pytest.mark.parametrize("kind", [KERPLE, Sandwich])
def test_whole_distances_of_a_known_extent(kind: type[pe.Encoding]) -> None:
    made, q = kind(2), torch.zeros(1, 2, 6, 4)
    (term,) = lower(made, Positions.build(6)).terms
    assert isinstance(term, DistanceTable)
    assert (term.values.shape, term.zero, term.saturates) == ((2, 11), 5, False)
    # Reused for farther tokens a table would be clamped, and wrong without a word.
    with pytest.raises(PositionsError, match="positions reach up to 5"):
        attend(q, q, q, lower(made, Positions.build(3)).terms, positions=Positions.build(6))
    with pytest.raises(PositionsError, match="extent"):
        attend(q, q, q, made, positions=torch.arange(6))
    # No table holds fractions.
    (term,) = lower(made, Positions.build(ids=torch.rand(6).double())).terms
    assert isinstance(term, DenseBias)


@pytest.mark.parametrize("kind", [KERPLE, Sandwich, pe.HardALiBi])
def test_whole_seconds_since_1970_take_no_table(kind: type[pe.Encoding]) -> None:
    encoding, seconds = kind(4).double(), torch.tensor([0, 60, 930, 1000])
    found = [
        bias_of(encoding, Positions.build(ids=seconds + start, causal=True))
        for start in (0, 1_700_000_000)
    ]
    torch.testing.assert_close(*found, rtol=0, atol=0)


@pytest.mark.parametrize(("kind", "most"), [("log", (2.0, 1.0)), ("power", (1.0, 2.0))])
def test_kerple_starts_as_the_authors_code(kind: str, most: tuple[float, float]) -> None:
    made = KERPLE(4_000, kind=kind)
    r1 = made.log_r1.exp()
    r2 = made.raw_r2.exp() if kind == "log" else 2 * made.raw_r2.sigmoid()
    for value, top in zip((r1, r2), most, strict=True):
        assert 0.0099 < value.min() < 0.02
        assert 0.99 * top < value.max() < top
        assert abs(value.mean() - top / 2) < 0.05 * top


@pytest.mark.parametrize("kind", ["log", "power"])
@pytest.mark.parametrize("raw", [-40.0, 0.0, 40.0])
def test_kerple_stays_legal_wherever_training_goes(kind: str, raw: float) -> None:
    made = KERPLE(3, kind=kind).double()
    with torch.no_grad():
        made.log_r1.fill_(0.0)
        made.raw_r2.fill_(raw)
    bias = bias_of(made, Positions.build(9))
    bias.sum().backward()
    assert (bias <= 0).all()
    assert (bias.diagonal(dim1=-2, dim2=-1) == 0).all()
    assert (bias[..., 0].diff(dim=-1) <= 0).all()
    for parameter in made.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()


def test_kerple_of_power_1_is_alibi_with_learned_slopes() -> None:
    made, alibi = KERPLE(12, kind="power").double(), ALiBi(12)
    with torch.no_grad():
        made.log_r1.copy_(torch.tensor(alibi.slope_values(), dtype=torch.float64).log())
        made.raw_r2.zero_()
    at = Positions.build(200)
    torch.testing.assert_close(bias_of(made, at), bias_of(alibi, at), rtol=1e-12, atol=0)


def test_kerple_in_bfloat16_tells_far_distances_apart() -> None:
    made = KERPLE(2).bfloat16()
    (term,) = lower(made, Positions.build(4_096)).terms
    assert isinstance(term, DistanceTable)
    assert term.values.dtype == torch.float32
    assert (term.values[:, term.zero :].diff() < 0).all()


def test_sandwich_without_its_shift_gives_the_same_attention() -> None:
    draw = drawing(2)
    q, k, v = (draw(2, 12, 30, 8) for _ in range(3))
    centered, plain = (Sandwich(12, dim=64, centered=centered) for centered in (True, False))
    at = Positions.build(30)
    ratio = torch.arange(1, 13).double() * 8 / 12
    shift = bias_of(plain, at) - bias_of(centered, at)
    torch.testing.assert_close(shift, (32 / ratio).view(1, 12, 1, 1).expand_as(shift))
    assert bias_of(centered, at).diagonal(dim1=-2, dim2=-1).abs().max() == 0
    both = [attend(q, k, v, encoding, causal=True) for encoding in (centered, plain)]
    torch.testing.assert_close(both[0], both[1], rtol=0, atol=1e-13)


def test_fire_reads_the_position_of_the_query() -> None:
    """The same distance weighs less the farther on the query is, once beyond the threshold."""
    made = FIRE(4, initial_threshold=8.0).double()
    near, far = (Positions.build(ids=torch.arange(start, start + 6)) for start in (0, 1_000))
    assert (bias_of(made, near) - bias_of(made, far)).abs().max() > 1e-3
    below = Positions.build(ids=torch.arange(2, 8))
    torch.testing.assert_close(bias_of(made, near), bias_of(made, below), rtol=0, atol=1e-14)
    # Fewer queries are the last ones: neither their row nor the number of keys enters.
    whole = bias_of(made, Positions.build(30))
    last = bias_of(made, Positions.build(3, 30))
    torch.testing.assert_close(last, whole[:, :, -3:], rtol=0, atol=1e-14)
    with torch.no_grad():
        made.multiplier.neg_()
    torch.testing.assert_close(bias_of(made, Positions.build(30)), whole, rtol=0, atol=0)


def test_fire_is_a_network_where_tokens_are_counted() -> None:
    made = FIRE(4, width=8).bfloat16()
    for at, rows in (
        (Positions.build(5, 7, causal=True), 1),
        (Positions.build(lengths=[3, 4]), 1),
        (Positions.build(attention_mask=torch.tensor([[0, 1, 1], [1, 1, 1]])), 2),
    ):
        (term,) = lower(made, at).terms
        assert isinstance(term, Network)
        assert (term.by_distance.shape, term.by_distance.dtype) == ((at.k_len,), torch.float64)
        assert (term.by_query.shape, term.by_query.dtype) == ((rows, at.q_len), torch.float64)


@pytest.mark.parametrize("ids", [torch.arange(7), torch.arange(7).double()])
def test_fire_of_explicit_positions_is_the_same_number_for_each_pair(ids: Tensor) -> None:
    made = FIRE(4, width=8, initial_threshold=2.0).double()
    told = Positions.build(ids=ids)
    (term,) = lower(made, told, dtype=torch.float64).terms
    assert isinstance(term, DenseBias)
    torch.testing.assert_close(bias_of(made, told), bias_of(made, Positions.build(7)))


def test_fire_keeps_two_numbers_in_float32() -> None:
    made = FIRE(4, width=8).bfloat16()
    told = Positions.build(ids=torch.arange(7))
    (term,) = lower(made, told).terms
    assert isinstance(term, DenseBias)
    assert (term.values.shape, term.values.dtype) == ((1, 4, 7, 7), torch.float32)
    assert (made.c.dtype, made.multiplier.dtype) == (torch.float32, torch.float32)
    assert made.hidden.weight.dtype == torch.bfloat16
    with pytest.raises(PositionsError, match="FIRE reads one coordinate per token"):
        lower(made, Positions.build(ids=torch.zeros(1, 4, 2).long()))


@pytest.mark.parametrize("encoding", [KERPLE(2), Sandwich(2, dim=8)], ids=repr)
@pytest.mark.parametrize("count", [1, 3])
def test_the_last_queries_read_a_table_without_what_is_never_ahead(
    encoding: pe.Encoding, count: int
) -> None:
    q, k, v = torch.randn(3, 1, 2, 9, 8).unbind()
    (table,) = lower(encoding, Positions.build(count, 9, causal=True)).terms
    assert isinstance(table, DistanceTable)
    assert (table.values.shape[-1], table.zero) == (9 + count - 1, 8)
    for parts in ([encoding], [encoding, Mask(Prefix(4))]):
        whole = attend(q, k, v, parts, causal=True)
        last = attend(q[:, :, -count:], k, v, parts, causal=True)
        torch.testing.assert_close(last, whole[:, :, -count:])
