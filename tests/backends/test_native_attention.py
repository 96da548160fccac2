"""The C attention kernels against the equation in float64, at sizes that fill no tile."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

import posenc as pe
from posenc import Positions, attend, lower
from posenc import terms as t
from posenc.backends import native
from posenc.backends.backend import Call
from posenc.native.library import LIBRARY
from tests.support.native_kernels import (
    BOUNDS,
    SHAPES,
    check,
    close,
    every_kind,
    learned,
    with_gradients,
)
from tests.support.oracles import drawing
from tests.support.term_examples import ADDITIONS, Sizes, inputs

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))

REFUSED = ("dense", "dense of all")


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_equation(shape: str, dtype: torch.dtype, causal: bool) -> None:
    s = SHAPES[shape]
    check(s, every_kind(s, drawing(2)), dtype, causal=causal)


@pytest.mark.parametrize("which", range(8))
def test_each_term_alone_is_the_equation(which: int) -> None:
    s = Sizes(2, 4, 2, 100, 150, 24, 10)
    for causal in (True, False):
        check(s, [every_kind(s, drawing(3))[which]], causal=causal)


@pytest.mark.parametrize("rules", [[], [t.Window(70), t.Sink(3)]], ids=str)
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("width", [16, 12])
@pytest.mark.parametrize("shared", [1, 2, 7])
def test_one_query_of_heads_that_share_keys_is_the_equation(
    shared: int, width: int, dtype: torch.dtype, rules: list[t.MaskRule]
) -> None:
    """They meet a tile together, each with what it has of its own; widths fill vectors or not."""
    s = Sizes(2, 2 * shared, 2, 1, 150, width, width)
    draw = drawing(8)
    masks = [t.Mask(rule) for rule in rules]
    counts = t.CountTable(draw(s.heads, 9, s.dim) / 100)
    sink = t.SinkLogit(draw(s.heads))
    for term in (*every_kind(s, draw), counts, pe.ReRoPE(width, window=40)):
        check(s, [*masks, term, sink], dtype, causal=True)
    together = every_kind(s, draw)[:6]
    check(s, [*masks, *together, sink], dtype, causal=True)


LONG = Sizes(2, 4, 2, 129, 129, 12, 5, reach=129)


def arrangement(kind: str, causal: bool) -> Positions:
    n = LONG.k_len
    ids = torch.arange(n) // torch.tensor([[50], [31]])
    mask = torch.ones(2, n)
    mask[0, :70], mask[1, 100:] = 0, 0
    where = {
        "plain": {},
        "padded": {"attention_mask": mask},
        "packed": {"documents": ids},
        "packed and padded": {"documents": ids, "attention_mask": mask},
    }[kind]
    return Positions.build(LONG.q_len, n, causal=causal, **where)


def seen(positions: Positions) -> Tensor:
    """Queries that are no padding, whose outputs nobody reads."""
    valid = positions.keys.valid
    return torch.ones(LONG.q_len, 1) if valid is None else valid[:, None, :, None]


@given(data=st.data())
def test_any_terms_and_any_arrangement_agree_with_the_reference(data: st.DataObject) -> None:
    able = [name for name in ADDITIONS if name not in REFUSED]
    names = data.draw(st.lists(st.sampled_from(able), max_size=4, unique=True))
    causal = data.draw(st.booleans())
    kind = data.draw(st.sampled_from(["plain", "padded", "packed", "packed and padded"]))
    terms = [ADDITIONS[name](LONG, drawing(seed)) for seed, name in enumerate(names)]
    positions = arrangement(kind, causal)
    leaves = [x.requires_grad_() for x in inputs(LONG, drawing(5))] + learned(terms)
    call = Call(*leaves[:3], lower(terms, positions), 1.0, 0.0)
    assume(native.BACKEND.unsupported_reason(call) is None)
    out = attend(*leaves[:3], terms, positions=positions, backend="native")
    expected = attend(*leaves[:3], terms, positions=positions, backend="reference")
    shown = seen(positions)
    pairs = [
        [x * shown, *torch.autograd.grad((x * shown).sin().sum(), leaves, materialize_grads=True)]
        for x in (out, expected)
    ]
    close(*pairs)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    "rules",
    [
        [t.Window(1)],
        [t.Window(20), t.Sink(3)],
        [t.Window(70)],
        [t.Chunk(70), t.Window(20), t.Sink(3)],
        [t.Chunk(11), t.Prefix(40)],
        [t.Prefix(33)],
        [t.Window(9), t.Sink(70), t.Prefix(5)],
    ],
    ids=str,
)
def test_masks_skip_tiles_and_cut_them(rules: list[t.MaskRule], causal: bool) -> None:
    for kind in ("plain", "packed"):
        terms = [t.Mask(rule) for rule in rules] + every_kind(LONG, drawing(4))[:1]
        check(LONG, terms, positions=arrangement(kind, causal))


@pytest.mark.parametrize("rotary", [pe.Rotary(12), pe.Rotary(12, rotary_dim=8)], ids=repr)
def test_rotation_comes_first(rotary: pe.Rotary) -> None:
    check(LONG, [rotary, pe.ALiBi(4), pe.SlidingWindow(40)], causal=True)


def test_rotations_per_query_head_take_keys_of_their_own() -> None:
    angles = drawing(7)(1, 4, 129, 6).double()
    check(LONG, [t.Rotate(angles, angles.clone(), "half")], causal=True)


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_very_large_biases(size: float) -> None:
    """All of a row, one key of each, and rows whose log-sum-exp is far below that of exp's end."""
    s = Sizes(1, 2, 2, 129, 129, 16, 16)
    everywhere = torch.full((1, 3), size)
    jump = torch.zeros(2, 129)
    jump[:, 100] = size
    for values in (everywhere, jump):
        table = t.DistanceTable(values.double(), values.shape[1] - 1, saturates=True)
        check(s, [table], causal=True)
        # float32 holds 1e4 + x to within 1e-3, in the reference as well.
        q, k, v = (x.float().requires_grad_() for x in inputs(s, drawing(8)))
        out, *grads = with_gradients(
            "native", [q, k, v], [t.DistanceTable(values, table.zero, saturates=True)], causal=True
        )
        wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
        wanted = with_gradients("reference", wide, [table], causal=True)
        for actual, expected in zip([out, *grads], wanted, strict=True):
            torch.testing.assert_close(actual.double(), expected, rtol=0, atol=5e-3)


def test_steep_slopes_keep_their_precision_far_out() -> None:
    """A bias of a key alone, slope * j, would be 5e-4 off in the last rows."""
    s = Sizes(1, 2, 2, 40, 4000, 16, 16)
    check(s, [t.Slope(torch.tensor([0.5, 0.01]))], torch.float32, causal=True)


def test_minus_infinity_in_a_table_hides_keys() -> None:
    s = Sizes(1, 2, 2, 90, 90, 8, 8)
    values = drawing(9)(2, 90)
    values[0, :80], values[1] = -torch.inf, -torch.inf
    q, k, v = (x.requires_grad_() for x in inputs(s, drawing(10)))
    table = t.DistanceTable(values, 89)
    got, wanted = (
        with_gradients(b, [q, k, v], [table], causal=True) for b in ("native", "reference")
    )
    close(got, wanted)
    assert (got[0][:, 1] == 0).all()


def test_a_nan_is_not_lost() -> None:
    q, k, v = (x.float() for x in inputs(Sizes(1, 2, 2, 70, 70, 8, 8), drawing(11)))
    q[0, 0, 3, 2] = k[0, 1, 65, 0] = torch.nan
    out = attend(q, k, v, causal=True, backend="native")
    hurt = out.isnan().all(dim=-1)[0]
    assert hurt[0].nonzero().flatten().tolist() == [3]
    assert hurt[1].nonzero().flatten().tolist() == [65, 66, 67, 68, 69]
    assert out.isnan().any(dim=-1).equal(out.isnan().all(dim=-1))


@pytest.mark.parametrize("causal", [True, False])
def test_rows_that_see_nothing_are_zero_with_their_gradients(causal: bool) -> None:
    s = Sizes(2, 4, 2, 129, 129, 16, 16)
    mask = torch.ones(2, 129)
    mask[0], mask[1, :70] = 0, 0
    positions = Positions.build(attention_mask=mask, causal=causal)
    leaves = [x.requires_grad_() for x in inputs(s, drawing(12))]
    out, q, k, v = with_gradients("native", leaves, every_kind(s, drawing(13)), positions=positions)
    assert (out[0] == 0).all()
    assert all((grad[0] == 0).all() for grad in (q, k, v))
    assert all(x.isfinite().all() for x in (out, q, k, v))
    check(s, every_kind(s, drawing(13)), positions=positions)


@pytest.mark.parametrize("which", range(8))
def test_gradients_are_those_of_finite_differences(which: int) -> None:
    s = Sizes(1, 2, 1, 3, 5, 3, 2)
    terms = [*every_kind(s, drawing(18))[which : which + 1]] or every_kind(s, drawing(18))
    fixed = [term for term in terms if isinstance(term, t.Offset)]
    leaves = [x.requires_grad_() for x in inputs(s, drawing(19))]
    leaves += [] if fixed else learned(terms)

    def run(*_: Tensor) -> Tensor:
        return attend(*leaves[:3], terms, causal=True, backend="native")

    assert torch.autograd.gradcheck(run, leaves)
