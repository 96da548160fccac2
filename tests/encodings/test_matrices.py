"""Encodings that multiply q and k by matrices of their positions, beside what holds for all."""

import math

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import GRAPE, CayleySTRING, CirculantSTRING, LieRE, Positions
from posenc.encoding import Encoding
from posenc.errors import PositionsError, SettingError
from tests.support.oracles import drawing

EXACT = {"rtol": 0, "atol": 1e-10}


def places(axes: int, moved: float = 0.0) -> Positions:
    ids = drawing(1)(2, 7, axes).abs() * 3 + moved
    return Positions.build(ids=ids if axes > 1 else ids[..., 0])


def moved_by(encoding: Encoding, axes: int) -> Tensor:
    """How far scores change where all tokens move."""
    q, k = drawing(2)(2, 2, 4, 7, encoding.head_dim).unbind()
    encoding = encoding.double()
    with torch.no_grad():
        found = [pe.scores(q, k, encoding, positions=places(axes, far)) for far in (0.0, 2.5)]
    return (found[1] - found[0]).abs().max()


@pytest.mark.parametrize(
    "make",
    [
        lambda: LieRE(10, heads=4, block=5),
        lambda: LieRE(10, heads=4, axes=2, block=2),
        lambda: CayleySTRING(10, heads=4, axes=3),
        lambda: CirculantSTRING(12, heads=4, axes=3, block=4),
        lambda: GRAPE(7, heads=4),
    ],
)
def test_of_what_commutes_only_differences_are_told(make) -> None:
    assert moved_by(make(), make().axes) < 1e-9


def test_matrices_of_several_axes_do_not_commute() -> None:
    made = LieRE(9, heads=4, axes=2, block=3, unit=8.0)
    assert moved_by(made, 2) > 1e-2
    assert not made.tags.translation_invariant
    assert LieRE(9, block=3).tags.translation_invariant


def test_blocks_of_two_are_mixed_rotary() -> None:
    """A generator [[0, u], [-u, 0]] turns its pair by -u."""
    mixed, lie = pe.MixedRotary(8, heads=4).double(), LieRE(8, heads=4, axes=2, block=2).double()
    with torch.no_grad():
        lie.upper.copy_(-mixed.frequency[..., None])
    q, k = drawing(3)(2, 2, 4, 12, 8).unbind()
    at = Positions.grid(3, 4)
    found, expected = (pe.scores(q, k, x, positions=at) for x in (lie, mixed))
    torch.testing.assert_close(found, expected, **EXACT)


def test_dimensions_that_fill_no_block_pass() -> None:
    q, k = torch.zeros(2, 1, 1, 5, 10).unbind()
    q[..., 8:], k[..., 8:] = 1.0, 2.0
    scores = pe.scores(q, k, LieRE(10, block=4), scale=1.0)
    torch.testing.assert_close(scores, torch.full_like(scores, 4.0))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_cayley_string_of_no_basis_is_rotary(layout: str) -> None:
    made = CayleySTRING(8, heads=4, layout=layout).double()
    with torch.no_grad():
        made.upper.zero_()
    q, k = drawing(4)(2, 2, 4, 9, 8).unbind()
    expected = pe.scores(q, k, pe.Rotary(8, layout=layout))
    # Frequencies start in float32.
    torch.testing.assert_close(pe.scores(q, k, made), expected, rtol=0, atol=1e-5)
    assert CayleySTRING(64, heads=2, axes=3).frequency.shape == (3, 2, 32)


@pytest.mark.parametrize("block", [None, 6, 4])
def test_circulants_start_with_the_frequencies_of_rotary(block: int | None) -> None:
    """Of each block the last pair rests: the alternating sum and the mean."""
    made = CirculantSTRING(12, heads=2, block=block, base=100.0)
    (at,) = made.angles(torch.ones(1, dtype=torch.int64)).detach()[:, :, 0]
    expected = 100.0 ** (-torch.arange(6).double() / 6)
    size = (block or 12) // 2
    expected[size - 1 :: size] = 0.0
    torch.testing.assert_close(at, expected.expand(2, 6), rtol=0, atol=1e-6)


def test_a_wide_basis_of_several_heads_is_orthogonal_with_threads_too() -> None:
    """In a process that has told torch how many there are, batches of solutions go wrong."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        encoding = CayleySTRING(160, heads=3)
        basis = encoding.basis()
        (grad,) = torch.autograd.grad(basis.sin().sum(), encoding.upper)
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(basis @ basis.mT, torch.eye(160).expand(3, -1, -1).double(), **EXACT)
    assert grad.isfinite().all()


def test_what_a_circulant_and_its_transpose_share_turns_nothing() -> None:
    made = CirculantSTRING(8, heads=4).double()
    q, k = drawing(5)(2, 2, 4, 9, 8).unbind()
    before = pe.scores(q, k, made)
    with torch.no_grad():
        made.c += 1.0 + torch.arange(8).double().mul(2 * math.pi / 8).cos()
    torch.testing.assert_close(pe.scores(q, k, made), before, **EXACT)


def test_a_plane_turns_by_its_area_and_all_else_passes() -> None:
    made = GRAPE(5, heads=1).double()
    with torch.no_grad():
        made.log_omega.fill_(math.log(0.3))
        made.a.copy_(torch.tensor([[2.0, 0, 0, 0, 0]]))
        made.b.copy_(torch.tensor([[7.0, 0, 0, 1.5, 0]]))
    one = torch.eye(5, dtype=torch.float64)
    # Every axis as a query at place 1, before every axis as a key at place 0.
    at = Positions(*(pe.Tokens(torch.full((5,), place)) for place in (1, 0)))
    turned = pe.scores(one[None, None], one[None, None], made, scale=1.0, positions=at)[0, 0]
    cos, sin = math.cos(0.3 * 3.0), math.sin(0.3 * 3.0)
    expected = one.clone()
    expected[0, 0] = expected[3, 3] = cos
    expected[0, 3], expected[3, 0] = -sin, sin
    torch.testing.assert_close(turned, expected, **EXACT)


def test_planes_start_orthonormal_at_frequencies_of_their_own() -> None:
    made = GRAPE(16, heads=4, base=16.0)
    frames = torch.stack((made.a, made.b), dim=1)
    torch.testing.assert_close(frames @ frames.mT, torch.eye(2).expand(4, 2, 2))
    torch.testing.assert_close(made.log_omega.exp(), torch.tensor([1.0, 0.5, 0.25, 0.125]))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LieRE(8, block=9), r"LieRE\(dim=8, block=9\).*2 to dim=8"),
        (lambda: LieRE(8, block=1), "block=1"),
        (lambda: LieRE(8, unit=0.0), "unit=0.0"),
        (lambda: LieRE(8, axes=2, grid=(3,)), r"LieRE\(axes=2, grid=\(3,\)"),
        (lambda: CayleySTRING(7, heads=4), "dim=7"),
        (lambda: CayleySTRING(8, heads=0), "heads=0"),
        (lambda: CirculantSTRING(12, heads=4, block=8), "dim=12, block=8.*must divide dim"),
        (lambda: CirculantSTRING(12, heads=4, block=3), "block=3"),
        (lambda: GRAPE(1, heads=4), r"GRAPE\(dim=1\): a plane has two dimensions"),
        (lambda: GRAPE(8, heads=4, base=0.0), "base=0.0"),
    ],
)
def test_settings_are_checked(make, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        make()


@pytest.mark.parametrize("kind", [LieRE, CayleySTRING, CirculantSTRING])
def test_places_of_other_axes_are_refused(kind: type) -> None:
    q = torch.zeros(2, 4, 7, 8)
    made = kind(8, heads=4, axes=3)
    for axes in (1, 2):
        with pytest.raises(PositionsError, match="reads 3 coordinates per token"):
            pe.attend(q, q, q, made, positions=places(axes))
