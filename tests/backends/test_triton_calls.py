"""Triton's attention beside its numbers: no value is read, a graph holds one node of it, and a
gradient of its gradient is refused.
"""

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import posenc as pe
from posenc import Positions, UnsupportedError, attend
from posenc import terms as t
from tests.support.triton_ready import DEVICE, EXACT, MARKS, READY, close, draw

pytestmark = [*MARKS, pytest.mark.usefixtures("small_tiles")]

if READY:
    from posenc.triton import attention
    from posenc.triton.kernel_args import Inputs


@pytest.mark.parametrize("dtype", [torch.float32, EXACT])
def test_a_gradient_of_its_gradient_is_refused(dtype: torch.dtype) -> None:
    q, k = draw(1, 2, 5, 8, dtype=dtype).requires_grad_(), draw(1, 2, 5, 8, dtype=dtype)
    out = attend(q, k, k, t.Slope(draw(2)), causal=True, backend="triton")
    (first,) = torch.autograd.grad(out.sin().sum(), q, create_graph=True)
    with pytest.raises(UnsupportedError, match=r"no gradient of its gradient.*reference"):
        torch.autograd.grad(first.square().sum(), q)


def test_dimensions_that_lie_farther_apart_than_32_bits_count() -> None:
    """As of many tokens that lie dimension after dimension; of 5 GB little is touched."""
    step, sizes = 2**27 + 2**24, (1, 2, 4, 16)
    memory = torch.empty(15 * step + 64, dtype=torch.bfloat16, device=DEVICE)
    far = memory.as_strided(sizes, (0, 4, 1, step)).copy_(draw(*sizes))
    for encoding in (t.Slope(draw(2).abs()), pe.Shaw(16, clip=2).to(DEVICE)):
        results = []
        for x in (far, far.contiguous()):
            leaves = [x.detach().requires_grad_() for _ in range(3)]
            out = attend(*leaves, encoding, causal=True, backend="triton")
            results.append((out, *torch.autograd.grad(out, leaves, x)))
        for one, other in zip(*results, strict=True):
            assert torch.equal(one, other)


def test_tensors_that_autograd_keeps_may_be_others() -> None:
    """As where they are kept on a CPU, or computed once more."""
    lowered = pe.lower(t.Slope(draw(2).abs().float()), Positions.build(20, causal=True))
    x = [draw(1, 2, 20, 8, dtype=torch.float32, seed=seed).requires_grad_() for seed in range(3)]

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, lowered, backend="triton")

    def moved(kept: Tensor) -> Tensor:
        apart = kept.new_empty(*kept.shape[:-1], kept.shape[-1] + 1)[..., 1:]
        return apart.copy_(kept)

    expected = torch.autograd.grad(run(*x).sin().sum(), x)
    with torch.autograd.graph.saved_tensors_hooks(moved, lambda kept: kept):
        out = run(*x)
    again = checkpoint(run, *x, use_reentrant=False)
    for each in (out, again):
        for actual, one in zip(torch.autograd.grad(each.sin().sum(), x), expected, strict=True):
            close(actual, one, torch.float32)


class NothingIsRead(TorchDispatchMode):
    """Fails where the host reads a value of a tensor, for which it would wait for a GPU."""

    READS = "_local_scalar_dense", "equal", "is_nonzero", "nonzero", "masked_select", "_unique2"

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func._schema.name.removeprefix("aten::") not in self.READS, func
        return func(*args, **(kwargs or {}))


PLACES = {
    "plain": lambda: Positions.build(20, causal=True),
    "one query": lambda: Positions.build(1, 20, causal=True),
    "packed": lambda: Positions.build(documents=torch.arange(20) // 7, causal=True),
    "several rows": lambda: Positions.build(documents=torch.arange(40).view(2, 20) // 9),
    "padded": lambda: Positions.build(attention_mask=torch.arange(20)[None] < 15, causal=True),
}


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("places", PLACES)
def test_no_value_is_read(places: str, learns: bool) -> None:
    """Of positions that are there, by a forward and its backward."""
    positions = PLACES[places]()
    values = draw(2, 6).requires_grad_(learns and places != "padded")
    q = draw(2, 2, positions.q_len, 8).requires_grad_(learns)
    k = draw(2, 2, 20, 8).requires_grad_(learns)
    with NothingIsRead():
        terms = [t.DistanceTable(values, 5, saturates=True), t.Mask(t.Window(9)), pe.Rotary(8)]
        lowered = pe.lower(terms, positions)
        for _ in range(2):
            out = attend(q, k, k, lowered, backend="triton")
        if learns:
            out.sum().backward()


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("kind", ["none", "slopes", "table", "sink", "offsets"])
def test_layers_that_share_terms_give_what_each_gives_alone(
    kind: str, places: str, learns: bool
) -> None:
    """Though they are launched with what the first was; and what is written to is read anew."""
    positions = PLACES[places]()
    rows, values = 2 if places in ("several rows", "padded") else 1, draw(2, 6).float()
    terms = {
        "none": lambda: [],
        "slopes": lambda: [t.Slope(values[:, 0].abs())],
        "table": lambda: [t.DistanceTable(values, 5, saturates=True)],
        "sink": lambda: [t.SinkLogit(values[:, 0])],
        "offsets": lambda: [
            t.Offset(values[:, :1].expand(1, 2, positions.q_len), values[:, :1].expand(1, 2, 20))
        ],
    }
    shared = pe.lower(terms[kind](), positions)
    for seed in range(3):
        x = [
            draw(rows, 2, count, 8, dtype=torch.float32, seed=seed).requires_grad_(learns)
            for count in (positions.q_len, 20, 20)
        ]
        found = []
        for backend in ("triton", "reference"):
            q, k, v = x if backend == "triton" else [one.double() for one in x]
            out = attend(q, k, v, shared, backend=backend)
            grads = torch.autograd.grad(out.double().sin().sum(), x) if learns else ()
            found.append((out, *grads))
        for actual, expected in zip(*found, strict=True):
            close(actual, expected, torch.float32)
        if seed == 1:
            values.mul_(-0.5)


def test_packed_positions_are_known_to_run_along_diagonals() -> None:
    """As their values say, where somebody reads them."""
    for documents in (torch.arange(20) // 7, torch.arange(40).view(2, 20) // 9):
        for start, q_len in ((0, 20), (3, 20), (0, 5)):
            told = Positions.build(q_len, documents=documents, start=start)
            read = Positions(told.queries, told.keys, unit_step=True)
            assert vars(told)["_aligned"] is True
            assert "_aligned" not in vars(read)
            assert read.aligned


def test_compiled_graphs_hold_one_node() -> None:
    values = draw(2, 6).requires_grad_()
    q, k = draw(1, 2, 9, 8).requires_grad_(), draw(1, 1, 9, 8)

    def inputs(q: Tensor, k: Tensor, values: Tensor) -> Inputs:
        return Inputs(q, k, k, values, None, None, [], 4, 0.3, True, 0, 0, 0, plain=True)

    def run(q: Tensor, k: Tensor, values: Tensor) -> Tensor:
        return attention.attend(inputs(q, k, values))

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for one, two in zip(
        *(
            (out, *torch.autograd.grad(out.sin().sum(), (q, values)))
            for out in (compiled(q, k, values), run(q, k, values))
        ),
        strict=True,
    ):
        close(one, two)
    torch.library.opcheck(
        torch.ops.posenc.triton_attend.default,
        tuple(inputs(q, k, values)),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )
    with torch.no_grad():
        close(compiled(q, k, values), run(q, k, values))
