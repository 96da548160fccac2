"""Two rotations in the C attention kernels, and factors that grow: against the equation."""

import pytest
import torch

import posenc as pe
from posenc import Positions, attend, explain_backend
from posenc import terms as t
from posenc.native.library import LIBRARY
from tests.support.native_kernels import BOUNDS, check, close, with_gradients
from tests.support.oracles import drawing
from tests.support.term_examples import Draw, Sizes, inputs, rotate

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))

SIZES = Sizes(2, 4, 2, 150, 150, 24, 10)
DIM = SIZES.dim
ENCODINGS: dict[str, pe.Encoding] = {
    "rerope": pe.ReRoPE(DIM, 40),
    "leaky": pe.ReRoPE(DIM, 70, leak=3.0, layout="interleaved"),
    "self_extend": pe.SelfExtend(DIM, 20, group=3),
    "lm_infinite": pe.LMInfinite(DIM, 30, sinks=70),
    "sinks": pe.Sinks(3, 64, pe.Rotary(DIM)),
    "all far but oneself": pe.ReRoPE(DIM, 1),
    "all near": pe.ReRoPE(DIM, 150),
}


def apart(s: Sizes, draw: Draw, width: int, heads: int = 1) -> t.Zones:
    """Zones that have nothing in common, so that a pair in the wrong one is seen."""
    return t.Zones(rotate(s, draw, heads=heads), rotate(s, draw, pairs=3, start=4), width)


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("name", ENCODINGS)
def test_encodings_are_the_equation(name: str, dtype: torch.dtype) -> None:
    check(SIZES, [ENCODINGS[name]], dtype, causal=True)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("width", [-5, 0, 1, 2, 63, 64, 65, 127, 128, 149, 150, 2**70])
def test_the_border_may_lie_anywhere_in_a_tile(width: int, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        check(SIZES, [apart(SIZES, drawing(3), width)], causal=True)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_zones_whose_query_heads_rotate_keys_by_their_own(key_heads: int) -> None:
    s = Sizes(2, 4, key_heads, 100, 130, DIM, 10)
    check(s, [apart(s, drawing(4), 33, heads=4)], causal=True)


def test_zones_stand_beside_all_that_depends_on_distance_and_query() -> None:
    draw = drawing(5)
    beside = [
        pe.ALiBi(4),
        t.DistanceTable(draw(4, 41), 17, inside=True, saturates=True),
        t.ValueTable(draw(1, 33, SIZES.value_dim), 12, saturates=True),
        t.Offset(draw(2, 4, 150), draw(2, 4, 150)),
    ]
    check(SIZES, [apart(SIZES, draw, 50), *beside], causal=True)
    by_query = t.Scale(draw(2, 1, 150).exp())
    check(SIZES, [apart(SIZES, draw, 50), by_query], causal=True)


@pytest.mark.parametrize("rules", [[t.Window(70), t.Sink(9)], [t.Prefix(90)], [t.Window(20)]])
def test_zones_go_by_order_within_documents_and_padding(rules: list[t.MaskRule]) -> None:
    mask = torch.ones(2, 150)
    mask[0, :33], mask[1, 120:] = 0, 0
    counted = torch.arange(150)
    below = pe.Tokens(counted, order=counted - 1000)
    arrangements = [
        Positions.build(lengths=[70, 1, 79], causal=True),
        Positions.build(attention_mask=mask, causal=True),
        Positions(below, below, causal=True, extent=150, unit_step=True),
        Positions.build(ids=counted**2, causal=True),
    ]
    masks = [t.Mask(rule) for rule in rules]
    for positions in arrangements:
        check(SIZES, [apart(SIZES, drawing(6), 30), *masks], positions=positions)


def test_few_queries_of_a_long_cache() -> None:
    for q_len in (1, 7):
        s = Sizes(1, 4, 2, q_len, 200, DIM, 10)
        check(s, [apart(s, drawing(7), 90)], causal=True)


@pytest.mark.parametrize("far", [False, True])
def test_what_is_not_finite_stays_with_who_sees_it(far: bool) -> None:
    """A key that is NaN and out of the window, near the border of the zones or beyond it."""
    q, k, v = inputs(SIZES, drawing(8))
    k[:, :, 100] = v[:, :, 100] = torch.nan
    terms = [apart(SIZES, drawing(9), 5 if far else 60), t.Mask(t.Window(20))]
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = attend(*leaves, terms, causal=True, backend="native")
    assert out[:, :, 100:120].isnan().all()
    rest = torch.cat((out[:, :, :100], out[:, :, 120:]), dim=2)
    assert rest.isfinite().all()
    (grad,) = torch.autograd.grad(rest.sum(), leaves[0])
    assert grad.isfinite().all()


def test_the_same_gradient_each_time() -> None:
    leaves = [x.float().requires_grad_() for x in inputs(SIZES, drawing(10))]
    terms = [apart(SIZES, drawing(11), 40)]
    first, again = (with_gradients("native", leaves, terms, causal=True) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one, other)


def test_auto_takes_zones_and_factors_that_grow() -> None:
    q = torch.ones(1, 2, 20, 8)
    for encoding in (pe.ReRoPE(8, 4), pe.Sinks(1, 4, pe.Rotary(8))):
        assert explain_backend(q, q, q, encoding, causal=True) == "native: taken"
        assert explain_backend(q[:, :, :1], q, q, encoding, causal=True) == "native: taken"
    plain = explain_backend(q, q, q, pe.Rotary(8), causal=True)
    assert explain_backend(q, q, q, pe.XPos(8), causal=True) == plain


@pytest.mark.parametrize("backend", ["native", "sdpa"])
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
def test_growing_factors_are_the_equation_far_from_the_origin(
    dtype: torch.dtype, backend: str
) -> None:
    """Positions as of the last of 40,000 tokens, and of tokens 40,000 apart."""
    close_by, spread = torch.arange(39_900, 40_000), torch.arange(100) * 404
    for ids in (close_by, spread):
        positions = Positions.build(ids=ids, causal=True)
        q, k, v = (drawing(seed)(1, 2, 100, 16).to(dtype) for seed in range(3))
        leaves = [x.requires_grad_() for x in (q, k, v)]
        wide = [x.detach().double().requires_grad_() for x in leaves]
        encoding = [pe.XPos(16)]
        wanted = with_gradients("reference", wide, encoding, positions=positions)
        got = with_gradients(backend, leaves, encoding, positions=positions)
        close(got, wanted, dtype)


def test_factors_that_leave_float32_are_left_to_others() -> None:
    q = torch.ones(1, 2, 100, 16)
    positions = Positions.build(ids=torch.arange(100) * 1000, causal=True)
    said = explain_backend(q, q, q, pe.XPos(16), positions=positions)
    assert said.startswith("native: factors that grow with position leave the range of float32")
    with pytest.raises(pe.UnsupportedError, match="leave the range of float32"):
        attend(q, q, q, pe.XPos(16), positions=positions, backend="native")
    # Counted from another origin, but as near to each other.
    near = Positions.build(ids=torch.arange(100) + 10**9, causal=True)
    assert not explain_backend(q, q, q, pe.XPos(16), positions=near).startswith(said[:30])


def test_growing_zones_are_the_equation() -> None:
    near = pe.lower(pe.XPos(DIM), 150, causal=True).terms[0]
    far = pe.lower(pe.XPos(DIM, scale_base=50.0), 150, causal=True).terms[0]
    check(SIZES, [t.Zones(near, far, 40)], torch.float32, causal=True)
