"""Gradients of the C kernels in few bits, of every member that they take, where sums are long.

What learns in a member is mostly a sum over all tokens, of terms that cancel: errors of rounding
that no single gradient of q or k shows add up in it.
"""

from collections.abc import Iterator
from typing import Literal

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import attend
from posenc.analysis.probe_context import context_for, sizes_for
from posenc.encoding import Encoding
from posenc.native.library import LIBRARY
from posenc.terms import GatherTable, Mask, Window
from posenc.testing.fixtures import attends, copy_of
from tests.support.oracles import drawing

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))

LENGTH = 2048
# Allowed errors relative to the norm of a gradient: a few roundings for q, k, v and the output, and
# nearly none for what is learned.
ROUNDING = {torch.bfloat16: 1e-2, torch.float16: 1e-3}
LEARNED = 5e-4


def members() -> Iterator[Encoding]:
    for kind in pe.encodings().values():
        yield from (encoding for encoding in kind.examples() if attends(encoding))


def gradients(
    encoding: Encoding, inputs: list[Tensor], dtype: torch.dtype, backend: str = "native"
) -> dict[str, Tensor]:
    """The output, and the gradient of everything that may have one, by name."""
    *leaves, grad = (x.to(dtype) for x in inputs)
    q, k, v = (x.requires_grad_() for x in leaves)
    context = context_for(encoding, q.shape[2], batch=1)
    out = attend(q, k, v, encoding, causal=True, context=context, backend=backend)
    parameters = dict(encoding.named_parameters())
    wanted = [q, k, v, *parameters.values()]
    got = torch.autograd.grad(out, wanted, grad, materialize_grads=True)
    return dict(zip(["out", "q", "k", "v", *parameters], [out.detach(), *got], strict=True))


def inputs_of(encoding: Encoding, length: int, dtype: torch.dtype) -> list[Tensor]:
    """q, k, v and the gradient of the output; values have a mean, as trained ones do."""
    sizes, draw = sizes_for(encoding), drawing(3)
    shapes = [(1, heads, length, sizes.head_dim) for heads in (sizes.heads, *[sizes.kv_heads] * 2)]
    q, k, v = (draw(*shape) for shape in shapes)
    return [x.to(dtype) for x in (q, k, v + 1, draw(*shapes[0]))]


def relative(actual: Tensor, expected: Tensor, least: float = 0) -> float:
    """The error's norm by that of what is expected, which may be zero, or by `least`."""
    error = (actual.double() - expected.double()).norm()
    least = max(least, 1e-3 * expected.numel() ** 0.5)
    return (error / expected.double().norm().clamp(min=least)).item()


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("encoding", list(members()), ids=repr)
def test_no_rounding_adds_up(encoding: Encoding, dtype: torch.dtype) -> None:
    encoding = copy_of(encoding)
    inputs = inputs_of(encoding, LENGTH, dtype)
    try:
        # Which is the equation to 1e-12, as other tests see.
        wanted = gradients(encoding, inputs, torch.float64)
    except pe.UnsupportedError as refusal:
        assert "cannot compute this" in str(refusal)  # noqa: PT017 - most refuse nothing
        return
    learned = [wanted[name] for name, _ in encoding.named_parameters()]
    # A unit of a network that is active for every pair shifts whole rows: its bias learns nothing,
    # as the sum of terms that are as large as those of its neighbours.
    least = 0.1 * max((float(x.norm()) for x in learned), default=0)
    for name, actual in gradients(encoding, inputs, dtype).items():
        if name in ("out", "q", "k", "v"):
            assert relative(actual, wanted[name]) < ROUNDING[dtype], name
        else:
            assert relative(actual, wanted[name], least) < LEARNED, name


@pytest.mark.parametrize("side", ["q", "k"])
def test_vectors_that_bfloat16_does_not_hold_are_read_as_they_are(side: Literal["q", "k"]) -> None:
    """Where a query sees one key, the log of the sum is a score, in float32 whatever q is."""
    draw = drawing(9)
    q, k = (draw(1, 2, 70, 40).bfloat16() for _ in range(2))
    table = draw(2, 139, 40).float()

    def score(dtype: torch.dtype, backend: str) -> Tensor:
        learned = table.to(torch.promote_types(dtype, torch.float32))
        terms = [GatherTable(learned, 69, side), Mask(Window(1))]
        tensors = (x.to(dtype) for x in (q, k, k))
        return attend(*tensors, terms, causal=True, backend=backend, return_lse=True)[1]

    made, wanted = score(torch.bfloat16, "native"), score(torch.float64, "reference")
    torch.testing.assert_close(made.double(), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_vectors_that_bfloat16_holds_are_read_as_they_are(causal: bool) -> None:
    """Products with them go by pairs, which round them no more than others are rounded."""
    length, width = 300, 24
    draw = drawing(8)
    inputs = [draw(1, 2, length, width).bfloat16() for _ in range(4)]
    tables = [draw(2, 2 * length - 1, width).bfloat16() for _ in range(2)]

    def results(dtype: torch.dtype, backend: str) -> list[Tensor]:
        *leaves, grad = (x.to(dtype) for x in inputs)
        learned = [x.to(torch.promote_types(dtype, torch.float32)) for x in tables]
        wanted = [x.requires_grad_() for x in (*leaves, *learned)]
        terms = [GatherTable(x, length - 1, side) for x, side in zip(learned, "qk", strict=True)]
        out = attend(*leaves, terms, causal=causal, backend=backend)
        return [out.detach(), *torch.autograd.grad(out, wanted, grad)]

    exact = results(torch.float64, "reference")
    for n, actual in enumerate(results(torch.bfloat16, "native")):
        bound = ROUNDING[torch.bfloat16] if n < 4 else LEARNED
        assert relative(actual, exact[n]) < bound, n


@pytest.mark.parametrize("length", [1024, 4096])
def test_gates_learn_what_float64_says(length: int) -> None:
    """Half of their gradient was wrong when it was made from rounded outputs."""
    encoding = pe.ForgetGate(8, 1, bias=4.0).double()
    draw = drawing(4)
    q, k, v, grad = (draw(1, 1, length, 16).bfloat16() for _ in range(4))
    inputs = [q, k, v + 1, grad]
    wanted = gradients(encoding, inputs, torch.float64, "reference")
    got = gradients(encoding, inputs, torch.bfloat16)
    for name in ("gate.weight", "gate.bias"):
        assert relative(got[name], wanted[name]) < LEARNED, name


def test_frequencies_learn_what_float64_says() -> None:
    encoding = pe.LearnedRotary(16).double()
    draw = drawing(5)
    inputs = [draw(1, 1, 1024, 16).bfloat16() for _ in range(4)]
    wanted = gradients(encoding, inputs, torch.float64, "reference")
    for name, actual in gradients(encoding, inputs, torch.bfloat16).items():
        assert relative(actual, wanted[name]) < (LEARNED if "freq" in name else 5e-3), name


def test_an_output_that_gets_no_gradient_rounds_weights_alone() -> None:
    """Once more than one that may get a gradient is rounded, where products go by pairs."""
    draw = drawing(7)
    q, k, v = (draw(1, 4, 300, 64).bfloat16() for _ in range(3))
    encoding = pe.ALiBi(4)

    def error(learns: bool) -> float:
        leaf = q.clone().requires_grad_(learns)
        out = attend(leaf, k, v, encoding, causal=True, backend="native").detach()
        return relative(out, exact)

    wide = (x.double() for x in (q, k, v))
    exact = attend(*wide, encoding, causal=True, backend="reference")
    exact_weights, rounded = error(learns=True), error(learns=False)
    if LIBRARY.reaches("avx512bf16"):
        assert exact_weights < rounded < 1.5 * exact_weights
    else:
        assert rounded == exact_weights


@pytest.mark.parametrize("causal", [True, False])
def test_bfloat16_is_no_coarser_than_that_of_torch(causal: bool) -> None:
    """Which rounds weights too, as products of 16 bits have to."""
    draw = drawing(6)
    q, k, v, grad = (draw(1, 4, 500, 64).bfloat16() for _ in range(4))

    def results(backend: str, dtype: torch.dtype) -> list[Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        out = attend(*leaves, causal=causal, backend=backend)
        return [out.detach(), *torch.autograd.grad(out, leaves, grad.to(dtype))]

    wanted = results("reference", torch.float64)
    names = ["out", "q", "k", "v"]
    for name, ours, peer, exact in zip(
        names, *(results(each, torch.bfloat16) for each in ("native", "sdpa")), wanted, strict=True
    ):
        assert relative(ours, exact) < 1.02 * relative(peer, exact), name


def test_scores_near_the_end_of_float32_are_numbers() -> None:
    """As they are in the equation: times log2(e) they would be infinite."""
    q, k, v = torch.full((3, 1, 1, 40, 1), 1.0)
    k = k * (torch.linspace(-3.0, 3.3, 40) * 1e38)[:, None]
    v = v * torch.arange(40.0)[:, None]
    q.requires_grad_()
    for causal in (True, False):
        got, wanted = (
            attend(q, k, v, causal=causal, scale=1.0, backend=name)
            for name in ("native", "reference")
        )
        torch.testing.assert_close(got, wanted)
        assert got.isfinite().all()
