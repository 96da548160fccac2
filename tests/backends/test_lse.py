"""attend(return_lse=True): the log of the sum of exp(score), by every backend that gives it."""

import itertools

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import UnsupportedError, attend, explain_backend
from posenc import terms as t
from posenc.attention import build_call
from posenc.backends import BACKENDS
from posenc.equation import sink_of
from posenc.lowering import Lowerable
from posenc.testing.fixtures import Trial, attends
from tests.support.oracles import drawing
from tests.support.term_examples import ARRANGEMENTS, CAUSAL, TERMS, Sizes, arranged, inputs

SIZES = Sizes(q_len=7)
# Which native takes of any positions: it reads neither dense biases nor distances that jump.
PLAIN = [
    name
    for name in TERMS
    if name.startswith(("rotate h", "offset", "count", "sink")) or name == "zones"
]


def computed(
    name: str, qkv: tuple[Tensor, ...], encoding: Lowerable, learned: list[Tensor], **call
) -> list[Tensor]:
    """Output and log of the sum, and the gradients of a function of both; of flex, no gradient."""
    q, k, v = leaves = [x.detach().requires_grad_(name != "flex") for x in qkv]
    with torch.set_grad_enabled(name != "flex"):
        out, lse = attend(q, k, v, encoding, backend=name, return_lse=True, **call)
    if name == "flex":
        return [out, lse]
    seen = lse.masked_fill(lse == -torch.inf, 0.0)
    total = out.sin().sum() + seen.cos().sum()
    grads = torch.autograd.grad(total, [*leaves, *learned], materialize_grads=True)
    return [out, lse, *grads]


def compare(qkv: tuple[Tensor, ...], encoding: Lowerable, learned: list[Tensor], **call) -> set:
    """With the reference, and its log of the sum with that of the scores; who was compared."""
    expected = computed("reference", qkv, encoding, learned, **call)
    told = pe.scores(*qkv[:2], encoding, **call).logsumexp(-1)
    sink = sink_of(build_call(*qkv, encoding, **call).lowered.terms)
    if sink is not None:
        told = torch.logaddexp(told, sink[:, None])
    torch.testing.assert_close(expected[1], told)
    with torch.no_grad():
        one = build_call(*qkv, encoding, **call, lse=True)
        able = {name for name in BACKENDS if BACKENDS[name].unsupported_reason(one) is None}
    for name in able - {"reference"}:
        actual = computed(name, qkv, encoding, learned, **call)
        for got, wanted in zip(actual, expected, strict=name != "flex"):
            torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)
    return able


@pytest.mark.parametrize("name", pe.encodings())
def test_of_every_encoding(name: str) -> None:
    for encoding in filter(attends, pe.encodings()[name].examples()):
        trial = Trial.of(encoding)
        learned = list(trial.encoding.parameters())
        place = {"context": trial.context, "causal": True}
        assert "blocked" in compare(trial.qkv, trial.encoding, learned, **place)


@pytest.mark.parametrize("which", range(3))
def test_where_one_tensor_learns(which: int) -> None:
    """The log of the sum has a gradient by queries and keys, and none by values."""
    found = {}
    for name in ("reference", "native", "blocked"):
        tensors = list(inputs(SIZES, drawing()))
        leaf = tensors[which].requires_grad_()
        try:
            out, lse = attend(*tensors, pe.Rotary(10), causal=True, backend=name, return_lse=True)
        except UnsupportedError:
            continue
        (found[name],) = torch.autograd.grad(out.sin().sum(), leaf, retain_graph=True)
        assert lse.requires_grad or which == 2
    assert {"reference", "blocked"} <= set(found)
    for grad in found.values():
        torch.testing.assert_close(grad, found["reference"], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", TERMS)
def test_of_every_term(name: str) -> None:
    for arrangement, causal in itertools.product(ARRANGEMENTS, (True, False)):
        if name in CAUSAL and not causal:
            continue
        draw = drawing()
        term = TERMS[name](SIZES, draw)
        parts = list(t.turns_in(term).values()) or [term]
        tensors = [x for part in parts for x in vars(part).values() if isinstance(x, Tensor)]
        learned = [x.requires_grad_() for x in tensors if x.is_floating_point()]
        positions, _ = arranged(arrangement, SIZES, causal)
        able = compare(inputs(SIZES, draw), term, learned, positions=positions)
        assert able >= ({"native", "blocked"} if name in PLAIN else {"blocked"})


def test_dropout_leaves_it_as_it_is() -> None:
    q, k, v = inputs(SIZES, drawing())
    _, expected = attend(q, k, v, causal=True, return_lse=True)
    for name in ("native", "blocked", "reference"):
        _, lse = attend(q, k, v, causal=True, return_lse=True, dropout=0.4, backend=name)
        torch.testing.assert_close(lse, expected)


def test_half_precision_tells_it_in_float32() -> None:
    q, k, v = (x.bfloat16() for x in inputs(SIZES, drawing()))
    exact = attend(*(x.double() for x in (q, k, v)), causal=True, return_lse=True)[1]
    for name in ("native", "blocked", "reference"):
        out, lse = attend(q, k, v, causal=True, return_lse=True, backend=name)
        assert (out.dtype, lse.dtype) == (torch.bfloat16, torch.float32)
        torch.testing.assert_close(lse.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.graph
def test_a_graph_holds_it() -> None:
    def total(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out, lse = attend(q, k, v, pe.ALiBi(6), causal=True, return_lse=True, backend="native")
        return out.sin().sum() + lse.cos().sum()

    leaves = [x.requires_grad_() for x in inputs(SIZES, drawing())]
    compiled = torch.compile(total, backend="aot_eager", fullgraph=True)
    expected = torch.autograd.grad(total(*leaves), leaves)
    for got, wanted in zip(torch.autograd.grad(compiled(*leaves), leaves), expected, strict=True):
        torch.testing.assert_close(got, wanted)


def test_who_cannot_tell_it_says_so() -> None:
    q, k, v = inputs(SIZES, drawing())
    with pytest.raises(UnsupportedError, match=r"sdpa.*does not give the log of the sum"):
        attend(q, k, v, causal=True, return_lse=True, backend="sdpa")
    assert explain_backend(q, k, v, causal=True).endswith("sdpa: taken")
    assert explain_backend(q, k, v, causal=True, return_lse=True) == "native: taken"


def test_a_cache_and_one_query_tell_it_too() -> None:
    q, k, v = inputs(Sizes(q_len=7), drawing())
    _, whole = attend(q, k, v, pe.ALiBi(6), causal=True, return_lse=True)
    cache = pe.Cache()
    for i in range(7):
        new = (x[:, :, i : i + 1] for x in (q, k, v))
        _, lse = attend(*new, pe.ALiBi(6), causal=True, cache=cache, return_lse=True)
        torch.testing.assert_close(lse[..., 0], whole[..., i])
