"""The C attention kernels against the equation in float64, at sizes that fill no tile."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

import posenc as pe
from posenc import Positions, UnsupportedError, attend, explain_backend, lower
from posenc import terms as t
from posenc.backends import native
from posenc.backends.call import Call
from posenc.native.library import LIBRARY
from tests.support.oracles import drawing
from tests.support.term_examples import ADDITIONS, Draw, Sizes, inputs

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))

BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}
REFUSED = ("count", "count of all heads", "dense", "dense of all")


def with_gradients(backend: str, leaves: list[Tensor], terms: list, **call) -> list[Tensor]:
    out = attend(*leaves[:3], terms, backend=backend, **call)
    grads = torch.autograd.grad(out.sin().sum(), leaves, materialize_grads=True)
    return [out, *grads]


def learned(terms: list[t.Term]) -> list[Tensor]:
    """The tensors of terms that have a gradient, as leaves."""
    found = []
    for term in terms:
        for value in vars(term).values() if not isinstance(term, pe.Encoding) else ():
            if isinstance(value, Tensor) and value.is_floating_point():
                found.append(value.requires_grad_())
    return found


def close(got: list[Tensor], wanted: list[Tensor], dtype: torch.dtype = torch.float64) -> None:
    for actual, expected in zip(got, wanted, strict=True):
        bound = BOUNDS[dtype] * max(1.0, expected.abs().max().item())
        torch.testing.assert_close(actual.double(), expected.double(), rtol=0, atol=bound)


def check(s: Sizes, terms: list[t.Term], dtype: torch.dtype = torch.float64, **call) -> None:
    """Output and gradients equal those of the reference in float64, from the same inputs."""
    q, k, v = (x.to(dtype).requires_grad_() for x in inputs(s, drawing(1)))
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    leaves = learned(terms)
    wanted = with_gradients("reference", [*wide, *leaves], terms, **call)
    got = with_gradients("native", [q, k, v, *leaves], terms, **call)
    for term in terms:
        if isinstance(term, t.Offset):
            # Sums of the same gradients of scores, by rows and by columns: one size measures both,
            # for the sums by rows are zero but for rounding.
            at = next(i for i, leaf in enumerate(leaves) if leaf is term.q) + 4
            for side in (got, wanted):
                side[at : at + 2] = [torch.cat([x.double() for x in side[at : at + 2]], dim=-1)]
    close(got, wanted, dtype)


def every_kind(s: Sizes, draw: Draw) -> list[t.Term]:
    """One of each term that the kernel reads itself."""
    return [
        t.DistanceTable(draw(s.heads, 41), 17, saturates=True),
        t.Slope(draw(s.heads).abs(), draw(s.heads).abs()),
        t.Offset(draw(s.batch, s.heads, s.q_len), draw(s.batch, s.heads, s.k_len)),
        t.GatherTable(draw(s.heads, 25, s.dim) / 4, 20, "q", saturates=True),
        t.GatherTable(draw(1, 19, s.dim) / 4, 6, "k", bias=draw(1, s.dim), saturates=True),
        t.ValueTable(draw(1, 33, s.value_dim), 12, saturates=True),
    ]


SHAPES = {
    "one token": Sizes(1, 3, 3, 1, 1, 40, 40),
    "63, d = 80": Sizes(2, 2, 1, 63, 63, 80, 40),
    "129, d = 96": Sizes(1, 4, 2, 129, 129, 96, 96),
    "fewer queries, d = 128": Sizes(1, 2, 2, 70, 131, 128, 24),
    "many query heads of one key head": Sizes(2, 6, 1, 65, 65, 8, 8),
    "one dimension": Sizes(1, 1, 1, 33, 33, 1, 1),
}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_equation(shape: str, dtype: torch.dtype, causal: bool) -> None:
    s = SHAPES[shape]
    check(s, every_kind(s, drawing(2)), dtype, causal=causal)


@pytest.mark.parametrize("at", range(6))
def test_each_term_alone_is_the_equation(at: int) -> None:
    s = Sizes(2, 4, 2, 100, 150, 24, 10)
    for causal in (True, False):
        check(s, [every_kind(s, drawing(3))[at]], causal=causal)


LONG = Sizes(2, 4, 2, 129, 129, 12, 5, reach=129)


def arrangement(kind: str, causal: bool) -> Positions:
    n = LONG.k_len
    ids = torch.arange(n) // torch.tensor([[50], [31]])
    mask = torch.ones(2, n)
    mask[0, :70], mask[1, 100:] = 0, 0
    given = {
        "plain": {},
        "padded": {"attention_mask": mask},
        "packed": {"documents": ids},
        "packed and padded": {"documents": ids, "attention_mask": mask},
    }[kind]
    return Positions.build(LONG.q_len, n, causal=causal, **given)


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


@contextmanager
def poisoned() -> Iterator[None]:
    """torch.empty gives NaNs, the kernel's scratch included."""
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3).isnan().all()
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def test_nothing_is_read_before_it_is_written() -> None:
    with poisoned():
        for shape in ("129, d = 96", "many query heads of one key head", "one token"):
            s = SHAPES[shape]
            for dtype in (torch.float64, torch.float32, torch.bfloat16):
                check(s, every_kind(s, drawing(14)), dtype, causal=True)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("batch", "heads"), [(1, 1), (1, 3), (2, 2)])
def test_threads_share_few_heads_and_repeat_themselves(batch: int, heads: int) -> None:
    s = Sizes(batch, heads, heads, 300, 300, 16, 16)
    leaves = [x.float().requires_grad_() for x in inputs(s, drawing(15))]
    terms = every_kind(s, drawing(16))
    leaves += learned(terms)
    with threads(1):
        expected = with_gradients("native", leaves, terms, causal=True)
    for count in (2, 3):
        with threads(count):
            runs = [with_gradients("native", leaves, terms, causal=True) for _ in range(3)]
        for run in runs:
            close(run, expected, torch.float32)
            assert all(torch.equal(x, y) for x, y in zip(run, runs[0], strict=True))


def test_threads_of_python_may_call_it_at_once() -> None:
    s = Sizes(1, 2, 1, 129, 129, 16, 16)
    leaves = [x.requires_grad_() for x in inputs(s, drawing(17))]
    expected = with_gradients("native", leaves, [], causal=True)
    results: list[list[Tensor]] = []

    def run() -> None:
        for _ in range(5):
            results.append(with_gradients("native", leaves, [], causal=True))

    workers = [threading.Thread(target=run) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 20
    for result in results:
        close(result, expected)


FORKS = """
import os, torch
from posenc import ALiBi, attend
torch.set_num_threads(2)
q = torch.ones(1, 4, 300, 8, requires_grad=True)
attend(q, q, q, ALiBi(4), causal=True, backend="native").sum().backward()
child = os.fork()
if child == 0:
    attend(q, q, q, ALiBi(4), causal=True, backend="native").sum().backward()
    os._exit(0)
raise SystemExit(os.waitpid(child, 0)[1])
"""


def test_a_forked_child_does_not_wait_for_threads_it_does_not_have() -> None:
    assert (
        subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], check=False).returncode == 0
    )


@pytest.mark.parametrize("at", range(7))
def test_gradients_are_those_of_finite_differences(at: int) -> None:
    s = Sizes(1, 2, 1, 3, 5, 3, 2)
    terms = [*every_kind(s, drawing(18))[at : at + 1]] or every_kind(s, drawing(18))
    fixed = [term for term in terms if isinstance(term, t.Offset)]
    leaves = [x.requires_grad_() for x in inputs(s, drawing(19))]
    leaves += [] if fixed else learned(terms)

    def run(*_: Tensor) -> Tensor:
        return attend(*leaves[:3], terms, causal=True, backend="native")

    assert torch.autograd.gradcheck(run, leaves)


def test_strides_do_not_matter() -> None:
    s = Sizes(2, 4, 2, 70, 70, 8, 8)
    q, k, v = inputs(s, drawing(20))
    terms = every_kind(s, drawing(21))
    expected = attend(q, k, v, terms, causal=True, backend="native")
    far = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    assert torch.equal(attend(*far, terms, causal=True, backend="native"), expected)
    odd = [x.mT.contiguous().mT for x in (q, k, v)]
    assert odd[0].stride(-1) != 1
    assert torch.equal(attend(*odd, terms, causal=True, backend="native"), expected)
    one = k[:, :1].expand_as(k)
    both = attend(q, one, v, terms, causal=True, backend="native")
    assert torch.equal(both, attend(q, one.contiguous(), v, terms, causal=True, backend="native"))


def test_a_gradient_of_the_gradient_is_refused() -> None:
    q = torch.ones(1, 2, 20, 8, requires_grad=True)
    out = attend(q, q, q, pe.ALiBi(2), causal=True, backend="native")
    (grad,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    with pytest.raises(UnsupportedError, match=r"no gradient of its gradient.*reference"):
        grad.sum().backward()


@pytest.mark.graph
def test_a_graph_holds_one_node_for_any_length() -> None:
    table = torch.randn(2, 9, requires_grad=True)

    def run(q: Tensor) -> Tensor:
        return attend(q, q, q, t.DistanceTable(table, 8, saturates=True), causal=True)

    seen_nodes: list[str] = []

    def spy(graph: torch.fx.GraphModule, _: list) -> torch.fx.GraphModule:
        seen_nodes.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend=spy)
    for length in (70, 131):
        q = torch.randn(1, 2, length, 8, requires_grad=True)
        got, wanted = (
            [out, *torch.autograd.grad(out.sum(), [q, table])] for out in (compiled(q), run(q))
        )
        close(got, wanted, torch.float32)
    assert seen_nodes.count("posenc.attention.default") == 1
    assert not any("softmax" in name for name in seen_nodes)


def refusals() -> Iterator[tuple[str, object, dict]]:
    s = Sizes(1, 2, 2, 20, 20, 8, 8)
    draw = drawing(22)
    gather = t.GatherTable(draw(1, 3, 8), 1, "q", saturates=True)
    by_query = t.Scale(draw(1, 1, 20))
    yield "no dropout", None, {"dropout": 0.1}
    yield "DenseBias is no function", t.DenseBias(draw(1, 1, 20, 20)), {}
    yield "CountTable needs the scores", t.CountTable(draw(1, 3, 8)), {}
    yield "beside a Rotate", [gather, pe.Rotary(8)], {}
    inside = t.DistanceTable(draw(1, 5), 2, inside=True, saturates=True)
    yield "inside a scale that differs", [inside, by_query], {}
    ids = torch.arange(s.k_len).flip(0)
    yield "explicit positions", pe.ALiBi(2), {"positions": Positions.build(ids=ids)}


@pytest.mark.parametrize("case", list(refusals()), ids=lambda case: case[0])
def test_what_it_refuses_and_why(case: tuple[str, object, dict]) -> None:
    said, terms, call = case
    q = torch.ones(1, 2, 20, 8)
    with pytest.raises(
        UnsupportedError, match=rf"backend='native'\) cannot compute this: .*{said}"
    ):
        attend(q, q, q, terms, **call, backend="native")


def test_auto_takes_it_where_sdpa_would_need_a_matrix() -> None:
    q = torch.ones(1, 2, 20, 8)
    for encoding in (pe.ALiBi(2), pe.T5Bias(2), pe.Shaw(8), [pe.Rotary(8), pe.SlidingWindow(5)]):
        assert explain_backend(q, q, q, encoding, causal=True) == "native: taken"
    for encoding in (None, pe.Rotary(8)):
        said = explain_backend(q, q, q, encoding, causal=True)
        assert said == "native: attention without bias and mask is left to SDPA\nsdpa: taken"
    said = explain_backend(q[:, :, :1], q, q, pe.ALiBi(2), causal=True)
    assert said.startswith("native: fewer than 8 queries are left to others")


def test_auto_takes_it_for_steps_that_are_slow_elsewhere() -> None:
    q, k = torch.ones(1, 4, 1, 8), torch.ones(1, 4, 300, 8)

    def taken(q: Tensor, k: Tensor, encoding: object) -> bool:
        return explain_backend(q, k, k, encoding, causal=True) == "native: taken"

    assert taken(q, k, [pe.Rotary(8), pe.SlidingWindow(75)])
    assert not taken(q, k, [pe.Rotary(8), pe.SlidingWindow(76)])
    q, k = q.bfloat16(), k.bfloat16()
    assert taken(q, k, pe.Rotary(8))
    assert not taken(q, k[:, :, :255], pe.Rotary(8))
    assert not taken(q, k[:, :2], pe.Rotary(8))
    assert taken(q, k[:, :2], pe.Shaw(8, values=True))
    assert not taken(q, k[:, :2], pe.Shaw(8, values=False))
