"""The C attention kernels beside the equation in float64: the same inputs, output and gradients."""

import torch
from torch import Tensor

import posenc as pe
from posenc import attend
from posenc import terms as t
from posenc.native.library import LIBRARY
from tests.support.oracles import drawing
from tests.support.term_examples import Draw, Sizes, inputs

BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}


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


def learns_alike(learning: Tensor, alone: Tensor, has_terms: bool) -> None:
    """An output that may get a gradient has the bits of one that gets none, but where its call has
    terms and weights go by pairs of bfloat16: of several queries of these alone they are exact.
    """
    pairs = not isinstance(LIBRARY, str) and LIBRARY.reaches("avx512bf16")
    if alone.dtype == torch.bfloat16 and pairs and has_terms and alone.shape[2] > 1:
        close([learning], [alone], torch.bfloat16)
        assert not torch.equal(learning, alone)
    else:
        assert torch.equal(learning, alone)


def check(s: Sizes, terms: list[t.Term], dtype: torch.dtype = torch.float64, **call) -> None:
    """Output and gradients equal those of the reference in float64, from the same inputs."""
    q, k, v = (x.to(dtype).requires_grad_() for x in inputs(s, drawing(1)))
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    leaves = learned(terms)
    wanted = with_gradients("reference", [*wide, *leaves], terms, **call)
    got = with_gradients("native", [q, k, v, *leaves], terms, **call)
    for side in (got, wanted):
        join_offsets(side, leaves, terms)
    close(got, wanted, dtype)


def join_offsets(results: list[Tensor], leaves: list[Tensor], terms: list[t.Term]) -> None:
    """One gradient of both sides of an Offset, among those of output, q, k, v and leaves.

    They sum the same gradients of scores, by rows and by columns: one size measures both, for the
    sums by rows are zero but for rounding.
    """
    for term in terms:
        if isinstance(term, t.Offset):
            at = next(i for i, leaf in enumerate(leaves) if leaf is term.q) + 4
            results[at : at + 2] = [torch.cat([x.double() for x in results[at : at + 2]], dim=-1)]


def every_kind(s: Sizes, draw: Draw) -> list[t.Term]:
    """One of each term that the kernel reads itself."""
    return [
        t.DistanceTable(draw(s.heads, 41), 17, saturates=True),
        t.Slope(draw(s.heads).abs(), draw(s.heads).abs()),
        t.Offset(draw(s.batch, s.heads, s.q_len), draw(s.batch, s.heads, s.k_len)),
        t.GatherTable(draw(s.heads, 25, s.dim) / 4, 20, "q", saturates=True),
        t.GatherTable(draw(1, 19, s.dim) / 4, 6, "k", bias=draw(1, s.dim), saturates=True),
        t.ValueTable(draw(1, 33, s.value_dim), 12, saturates=True),
        t.Network(
            draw(s.k_len), draw(s.batch, s.q_len), *draw(2, 9), draw(s.heads, 9), draw(s.heads)
        ),
        t.GridTable(draw(s.heads, 81), *cells(s), 40),
    ]


def cells(s: Sizes) -> tuple[Tensor, Tensor]:
    """Indices of queries and keys in grids of rows of 5, a row of the batch ahead of the other."""
    at = (torch.arange(s.k_len) + torch.arange(s.batch)[:, None]) % 25
    index = at // 5 * 9 + at % 5
    return index[:, -s.q_len :], index


SHAPES = {
    "one token": Sizes(1, 3, 3, 1, 1, 40, 40),
    "63, d = 80": Sizes(2, 2, 1, 63, 63, 80, 40),
    "129, d = 96": Sizes(1, 4, 2, 129, 129, 96, 96),
    "fewer queries, d = 128": Sizes(1, 2, 2, 70, 131, 128, 24),
    "many query heads of one key head": Sizes(2, 6, 1, 65, 65, 8, 8),
    "one dimension": Sizes(1, 1, 1, 33, 33, 1, 1),
}


def tables(tokens: int, pairs: int, dtype: torch.dtype, batch: int = 1) -> tuple[Tensor, Tensor]:
    angle = torch.rand(batch, 1, tokens, pairs, dtype=torch.float64) * 6.3
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return angle.cos().to(wide), angle.sin().to(wide)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype)
