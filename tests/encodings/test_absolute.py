"""What absolute encodings promise beyond the public suite: any dimension, bad input, teaching."""

import itertools
from collections.abc import Callable

import mpmath
import pytest
import torch
from torch import Tensor, nn

import posenc as pe
from posenc import Binary, Encoding, Ordinal, Positions, PositionsError, SettingError, Sinusoidal
from posenc.testing import run_check

LEGAL = [("interleaved", "paper"), ("half", "paper"), ("half", "tensor2tensor")]


def table(encoding: Encoding, positions: Positions | Tensor | None, length: int) -> Tensor:
    width = encoding.model_dim or 1
    return encoding.embed(torch.zeros(1, length, width, dtype=torch.float64), positions)[0]


@pytest.mark.parametrize(("layout", "denominator"), LEGAL)
def test_every_dimension_of_every_sinusoid(layout: str, denominator: str) -> None:
    at = torch.tensor([[0.0, 7.5, 3.0, 10_000.0], [1.0, 1.0, 2.25, 400.0]], dtype=torch.float64)
    merges = ("add", "multiply", "hadamard", "concat")
    for dim, merge in itertools.product((1, 2, 3, 7, 8), merges):
        if denominator == "tensor2tensor" and dim < 2:
            continue
        made = Sinusoidal(dim, 50.0, layout, denominator, merge)
        x = torch.randn(2, 4, dim, dtype=torch.float64)
        expected = made.reference_embed(x, at)
        torch.testing.assert_close(made.embed(x, at), expected, rtol=0, atol=1e-11)


def test_an_odd_dimension_of_the_paper_ends_with_a_sine() -> None:
    interleaved, half = (
        table(Sinusoidal(7, layout=each), None, 20) for each in ("interleaved", "half")
    )
    assert torch.equal(half, torch.cat((interleaved[:, 0::2], interleaved[:, 1::2]), dim=-1))
    assert torch.equal(interleaved[:, -1], half[:, 3])


def test_an_odd_dimension_of_tensor2tensor_ends_with_zeros() -> None:
    settings = {"layout": "half", "denominator": "tensor2tensor"}
    odd, even = (table(Sinusoidal(dim, **settings), None, 20) for dim in (9, 8))
    assert torch.equal(odd[:, :8], even)
    assert not odd[:, 8].any()


def test_the_longest_wavelength_of_each_denominator() -> None:
    paper = Sinusoidal(8, base=100.0).frequencies()
    other = Sinusoidal(8, base=100.0, layout="half", denominator="tensor2tensor").frequencies()
    assert paper[0] == other[0] == 1.0
    assert paper[-1].item() == pytest.approx(100.0 ** (-6 / 8), rel=1e-15)
    assert other[-1].item() == pytest.approx(1 / 100.0, rel=1e-15)


def test_two_dimensions_where_transformers_divides_by_zero() -> None:
    module = pytest.importorskip("transformers.models.m2m_100.modeling_m2m_100")
    with pytest.raises(ZeroDivisionError):
        module.M2M100SinusoidalPositionalEmbedding.get_embedding(4, 2)
    p = table(Sinusoidal(2, layout="half", denominator="tensor2tensor"), None, 4)
    angle = torch.arange(4).double()
    assert torch.equal(p, torch.stack((angle.sin(), angle.cos()), dim=-1))


def test_left_padding_where_x_transformers_fails() -> None:
    module = pytest.importorskip("x_transformers.x_transformers")
    theirs = module.ScaledSinusoidalEmbedding(8)
    nn.init.ones_(theirs.scale)
    x = torch.zeros(2, 5, 8)
    with pytest.raises((RuntimeError, ValueError)):
        theirs(x, seq_start_pos=torch.tensor([2, 0]))
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    made = Sinusoidal(8, layout="half")
    found = made.embed(x, Positions.build(attention_mask=mask))
    torch.testing.assert_close(found[0, 2:], theirs(x[:, :3]), rtol=0, atol=1e-6)
    torch.testing.assert_close(found[1], theirs(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "made", [Sinusoidal(6), Ordinal("concat"), Binary(6), pe.Waveform(6, "triangle")], ids=repr
)
def test_positions_come_in_every_form(made: Encoding) -> None:
    whole = table(made, None, 7)
    ids = Positions.build(ids=torch.arange(7))
    assert torch.equal(table(made, Positions.build(7), 7), whole)
    assert torch.equal(table(made, ids, 7), whole)
    # While decoding, x holds the last tokens only.
    assert torch.equal(table(made, Positions.build(3, 7), 3), whole[4:])
    if not made.tags.needs_extent:
        assert torch.equal(table(made, torch.arange(7), 7), whole)
        assert torch.equal(table(made, torch.arange(7)[None], 7), whole)


def test_ordinal_is_the_number_itself() -> None:
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    at = torch.tensor([4.0, 0.5, 1000.0], dtype=torch.float64)
    assert torch.equal(Ordinal().embed(x, at), x + at[:, None])
    assert torch.equal(Ordinal("multiply").embed(x, at), x * (1 + at[:, None]))
    assert torch.equal(Ordinal("hadamard").embed(x, at), x * at[:, None])
    beside = Ordinal("concat").embed(x, at)
    assert torch.equal(beside[..., :5], x)
    assert torch.equal(beside[..., 5], at.expand(2, -1))
    assert Ordinal("concat").embedded_width(5) == 6


def test_layer_norm_takes_an_added_ordinal_out() -> None:
    """Hence the one check of the public suite that Ordinal() cannot pass."""
    x = torch.randn(1, 9, 16, dtype=torch.float64)
    norm = nn.LayerNorm(16, eps=0.0, dtype=torch.float64)
    torch.testing.assert_close(norm(Ordinal().embed(x, None)), norm(x), rtol=0, atol=1e-12)
    for name in ("check_reference_embed", "check_far_positions", "check_low_precision"):
        assert run_check(Ordinal(), name).status == "passed"
    why = "LayerNorm subtracts what is the same in all dimensions"
    assert run_check(Ordinal(), "check_position_matters", expected_failure=why).status == "expected"


def test_ordinals_outgrow_low_precision() -> None:
    at = torch.tensor([255, 256, 257, 65_519, 65_520])
    low = Ordinal().embed(torch.zeros(1, 5, 2, dtype=torch.bfloat16), at)[0, :, 0]
    assert low[0] != low[1]
    assert low[1] == low[2]
    half = Ordinal().embed(torch.zeros(1, 5, 2, dtype=torch.float16), at)[0, :, 0]
    assert half.isinf().tolist() == [False, False, False, False, True]


def test_binary_digits_are_those_of_python() -> None:
    at = torch.tensor([0, 1, 7, 8, 1023, 600])
    digits = table(Binary(10), Positions.build(ids=at), 6)
    for row, number in zip(digits.long().tolist(), at.tolist(), strict=True):
        assert "".join(map(str, reversed(row))) == f"{number:010b}"
    # Neighbours differ in four digits, positions that are far apart in one.
    assert (digits[2] - digits[3]).abs().sum() == 4
    assert (digits[0] - digits[3]).abs().sum() == 1


def test_binary_of_every_int64_needs_no_extent() -> None:
    at = torch.tensor([2**62 + 5, 2**63 - 1])
    digits = table(Binary(70), at, 2).long()
    assert digits[0].nonzero().flatten().tolist() == [0, 2, 62]
    assert digits[1].tolist() == [1] * 63 + [0] * 7
    assert not Binary(63).tags.needs_extent
    assert Binary(62).tags.needs_extent


REFUSED: dict[str, tuple[type[Exception], Callable[[], object]]] = {
    r"Sinusoidal\(dim=0\): dim must be a whole number": (
        SettingError,
        lambda: Sinusoidal(0),
    ),
    r"Sinusoidal\(denominator='fairseq'\): denominator is 'paper' or 'tensor2tensor'": (
        SettingError,
        lambda: Sinusoidal(8, denominator="fairseq"),
    ),
    r"layout='interleaved', denominator='tensor2tensor'\).*pass layout='half'": (
        SettingError,
        lambda: Sinusoidal(8, denominator="tensor2tensor"),
    ),
    r"Sinusoidal\(dim=1, layout='half', denominator='tensor2tensor'\).*dim >= 2": (
        SettingError,
        lambda: Sinusoidal(1, layout="half", denominator="tensor2tensor"),
    ),
    r"Ordinal\(merge='sum'\): merge is 'add', 'multiply', 'hadamard' or 'concat'": (
        SettingError,
        lambda: Ordinal("sum"),
    ),
    r"Binary\(dim=0\)": (SettingError, lambda: Binary(0)),
    r"Binary\(dim=3\) tells 8 positions apart, but got positions up to 8: .* one digit more": (
        PositionsError,
        lambda: Binary(3).embed(torch.zeros(1, 9, 3), None),
    ),
    r"Binary reads the digits of whole positions: give int64": (
        PositionsError,
        lambda: Binary(64).embed(torch.zeros(1, 2, 64), torch.tensor([0.0, 1.5])),
    ),
    r"Binary needs to know how far its positions reach": (
        PositionsError,
        lambda: Binary(8).embed(torch.zeros(1, 2, 8), torch.arange(2)),
    ),
    r"Ordinal reads one coordinate per token": (
        PositionsError,
        lambda: Ordinal().embed(torch.zeros(1, 4, 8), torch.zeros(1, 4, 2)),
    ),
    r"positions for a batch of 2, but Sinusoidal.embed got x of shape \(1, 3, 8\)": (
        PositionsError,
        lambda: Sinusoidal(8).embed(
            torch.zeros(1, 3, 8), Positions.build(attention_mask=torch.ones(2, 3))
        ),
    ),
    r"positions for a batch of 2, but Sinusoidal.embed got x of shape \(3, 3, 8\)": (
        PositionsError,
        lambda: Sinusoidal(8).embed(
            torch.zeros(3, 3, 8), Positions.build(attention_mask=torch.ones(2, 3))
        ),
    ),
    r"Waveform\(wave='cosine'\): sine, triangle, square, sawtooth or a function": (
        SettingError,
        lambda: pe.Waveform(8, wave="cosine"),
    ),
    r"Waveform\(pairing='double'\)": (SettingError, lambda: pe.Waveform(8, pairing="double")),
    r"Waveform\(frequencies='linear'\): 'geometric', 'one' or a sequence": (
        SettingError,
        lambda: pe.Waveform(8, frequencies="linear"),
    ),
    r"Waveform\(dim=8, pairing='quadrature', frequencies=\(1.0,\)\): 4 positive numbers": (
        SettingError,
        lambda: pe.Waveform(8, frequencies=[1.0]),
    ),
    r"frequencies=0.5\): .*sequence of 4 positive numbers": (
        SettingError,
        lambda: pe.Waveform(8, frequencies=0.5),
    ),
    r"Waveform\(dim=2, pairing='single', frequencies=\(1.0, 0.0\)\): 2 positive numbers": (
        SettingError,
        lambda: pe.Waveform(2, pairing="single", frequencies=[1.0, 0.0]),
    ),
    r"pairing='mismatched', frequencies='one'.*the same frequency": (
        SettingError,
        lambda: pe.Waveform(8, pairing="mismatched", frequencies="one"),
    ),
    r"made \(1, 3\) of turns of shape \(1, 3, 4\): a wave gives one value for each": (
        pe.ShapeError,
        lambda: pe.Waveform(4, wave=lambda turns: turns.sum(-1)).embed(torch.zeros(1, 3, 4), None),
    ),
}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("message", REFUSED)
def test_what_has_no_meaning_is_refused(message: str) -> None:
    kind, call = REFUSED[message]
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("position", [10**3, 10**5, 10**6, 10**7, 10**8, 2**31 - 1])
def test_sinusoidal_waves_are_right_far_out(position: int, layout: str) -> None:
    """Against 50 digits: one rounding to float32, at 2**31 - 1 what a float64 angle still holds."""
    made = pe.Sinusoidal(64, layout=layout)
    found = made.embed(torch.zeros(1, 1, 64), torch.tensor([position])).flatten()
    waves = found.view(2, 32).T if layout == "half" else found.view(32, 2)
    worst = 0.0
    with mpmath.workdps(50):
        for r, (sin, cos) in enumerate(waves.tolist()):
            angle = position * mpmath.mpf(10_000) ** (-mpmath.mpf(r) / 32)
            worst = max(worst, abs(mpmath.sin(angle) - sin), abs(mpmath.cos(angle) - cos))
    assert worst <= (6e-8 if position <= 10**8 else 4e-7)
