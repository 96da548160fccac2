"""rotate: what it does to q and k, in which dtype, and what it refuses."""

import math

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, Rotary, UnsupportedError, rotate
from posenc.terms import Rotate
from tests.support.oracles import drawing

ROTARIES = [
    Rotary(8),
    Rotary(8, base=500.0, layout="interleaved"),
    Rotary(10, rotary_dim=4),
    Rotary(10, layout="interleaved", rotary_dim=6),
]


def turned(x: Tensor, rotary: Rotary, at: list[list[float]]) -> Tensor:
    """Each pair of each token as a complex number times exp(i angle)."""
    pairs = (rotary.rotary_dim or rotary.dim) // 2
    out = x.double().clone()
    for b, row in enumerate(at):
        for token, position in enumerate(row):
            for r in range(pairs):
                half = rotary.layout == "half"
                one, two = (r, r + pairs) if half else (2 * r, 2 * r + 1)
                angle = position * rotary.base ** (-2 * r / (2 * pairs))
                wave = complex(math.cos(angle), math.sin(angle))
                for h in range(x.shape[1]):
                    pair = complex(x[b, h, token, one].item(), x[b, h, token, two].item()) * wave
                    out[b, h, token, one], out[b, h, token, two] = pair.real, pair.imag
    return out


@pytest.mark.parametrize("rotary", ROTARIES, ids=repr)
def test_pairs_turn_by_position_times_frequency(rotary: Rotary) -> None:
    draw, d = drawing(), rotary.dim
    q, k = draw(2, 4, 3, d), draw(2, 2, 5, d)
    got_q, got_k = rotate(q, k, rotary)
    torch.testing.assert_close(got_q, turned(q, rotary, [[2, 3, 4]] * 2), rtol=0, atol=1e-14)
    torch.testing.assert_close(got_k, turned(k, rotary, [[*range(5)]] * 2), rtol=0, atol=1e-14)

    rows = [[0, 7, 1, 1, 3], [5, 4, 3, 2, 1]]
    positions = Positions.build(3, ids=torch.tensor(rows))
    got_q, got_k = rotate(q, k, rotary, positions=positions)
    expected = turned(q, rotary, [row[2:] for row in rows])
    torch.testing.assert_close(got_q, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(got_k, turned(k, rotary, rows), rtol=0, atol=1e-14)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_the_sign_is_that_of_the_paper(layout: str) -> None:
    """Equation 13: (1, 0) at position 1 becomes (cos 1, sin 1)."""
    x = torch.tensor([0.0, 0.0, 1.0, 0.0]).view(1, 1, 2, 2).double()
    got, _ = rotate(x, x, Rotary(2, layout=layout))
    expected = torch.tensor([math.cos(1), math.sin(1)], dtype=torch.float64)
    torch.testing.assert_close(got[0, 0, 1], expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_arithmetic_is_wide_and_the_result_has_the_dtype_of_the_input(dtype: torch.dtype) -> None:
    draw, rotary = drawing(), Rotary(8)
    q = draw(1, 2, 4, 8).to(dtype)
    at = [[100_000.0 + i for i in range(4)]]
    positions = Positions.build(ids=torch.tensor(at).long())
    expected = turned(q, rotary, at)
    for given in (rotary, pe.lower(rotary, positions), pe.lower(rotary, positions, dtype=dtype)):
        if given is not rotary and dtype in (torch.bfloat16, torch.float16):
            continue
        place = positions if given is rotary else None
        got, _ = rotate(q, q, given, positions=place)
        assert got.dtype == dtype
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(got.double(), expected, rtol=eps, atol=2 * eps)
    # Half precision is rounded once, at the end: all but a few elements are the nearest number.
    if dtype in (torch.bfloat16, torch.float16):
        assert (got == expected.to(dtype)).double().mean() > 0.9


def test_autocast_changes_nothing() -> None:
    draw = drawing()
    q, k = draw(1, 2, 4, 8).float(), draw(1, 2, 4, 8).float()
    expected = rotate(q, k, Rotary(8))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = rotate(q, k, Rotary(8))
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])


def test_inplace_writes_into_what_it_was_given() -> None:
    draw = drawing()
    q, k = draw(1, 4, 3, 8).float(), draw(1, 2, 3, 8).float()
    expected = rotate(q.clone(), k.clone(), Rotary(8))
    got = rotate(q, k, Rotary(8), inplace=True)
    assert got[0] is q
    assert got[1] is k
    assert torch.equal(q, expected[0])
    assert torch.equal(k, expected[1])


def test_inplace_refuses_a_tensor_that_needs_a_gradient() -> None:
    q = torch.randn(1, 1, 2, 4, requires_grad=True)
    before = q.detach().clone()
    with pytest.raises(UnsupportedError, match=r"inplace=True.*q needs a gradient.*inplace=False"):
        rotate(q, q.detach(), Rotary(4), inplace=True)
    with pytest.raises(UnsupportedError, match="k needs a gradient"):
        rotate(q.detach(), q, Rotary(4), inplace=True)
    assert torch.equal(q, before)


@pytest.mark.parametrize("inplace", [False, True])
def test_waves_that_are_written_to_turn_no_gradient_back(inplace: bool) -> None:
    lowered, x = pe.lower(Rotary(8), 5), torch.randn(1, 2, 5, 8, requires_grad=True)
    q, _ = rotate(x * 1, x * 1, lowered, inplace=inplace)
    for cos, _ in (x for x in lowered.form.waves(torch.float32) if x is not None):
        cos.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        q.sum().backward()


def test_not_inplace_leaves_the_input_alone() -> None:
    q = drawing()(1, 2, 3, 6)
    before = q.clone()
    rotate(q, q, Rotary(6, rotary_dim=2))
    assert torch.equal(q, before)


def test_strides_do_not_matter() -> None:
    q = drawing()(2, 5, 3, 8).transpose(1, 2)
    for layout in ("half", "interleaved"):
        rotary = Rotary(8, layout=layout)
        got, _ = rotate(q, q, rotary)
        assert torch.equal(got, rotate(q.contiguous(), q.contiguous(), rotary)[0])


def test_a_bare_term_turns_too() -> None:
    draw = drawing()
    angles = draw(2, 3, 4, 2)
    q = draw(2, 3, 4, 4)
    got_q, got_k = rotate(q, q, Rotate(angles, -angles, "half", gain=2.0))
    back, _ = rotate(got_q, got_k, Rotate(-angles, angles, "half", gain=0.5))
    torch.testing.assert_close(back, q)
    norms = got_k.norm(dim=-1)
    torch.testing.assert_close(norms, 2 * q.norm(dim=-1))


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        (pe.ALiBi(2), r"ALiBi\(heads=2.*\['Slope'\], not to one Rotate; use attend"),
        (pe.NoPE(), r"\[\], not to one Rotate"),
        ([Rotary(4), pe.SlidingWindow(3)], r"\['Rotate', 'Mask'\]"),
        (pe.Sinusoidal(4), "Sinusoidal changes the embeddings"),
    ],
    ids=repr,
)
def test_only_one_rotation_can_be_made_of_q_and_k(encoding: pe.Encoding, said: str) -> None:
    q = torch.zeros(1, 2, 3, 4)
    with pytest.raises(UnsupportedError, match=said):
        rotate(q, q, encoding)


def test_gradients_turn_back() -> None:
    q, k = (drawing(seed)(1, 2, 3, 6).requires_grad_() for seed in (1, 2))
    rotary = Rotary(6, layout="interleaved", rotary_dim=4)
    assert torch.autograd.gradcheck(lambda q, k: rotate(q, k, rotary), (q, k))
