"""Tables of rows and columns in the C attention kernels: windows, runs of keys, gradients."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, attend, explain_backend
from posenc import terms as t
from posenc.native.library import LIBRARY
from tests.support.native_kernels import BOUNDS, check, close, learned, with_gradients
from tests.support.oracles import drawing
from tests.support.term_examples import Sizes, inputs

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))

WINDOW = Sizes(3, 4, 2, 49, 49, 12, 5)


def table(
    s: Sizes, q_index: Tensor, k_index: Tensor, heads: int | None = None, reach: int = 200
) -> t.GridTable:
    return t.GridTable(drawing(41)(heads or s.heads, 2 * reach + 1), q_index, k_index, reach)


def cells(height: int, width: int) -> Tensor:
    """Rows and columns of a window in one number."""
    rows, columns = torch.arange(height)[:, None], torch.arange(width)
    return (rows * (2 * width - 1) + columns).view(1, -1)


@pytest.mark.parametrize("class_token", [True, False])
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("grid", [(1, 1), (3, 5), (7, 7), (12, 12), (2, 70)], ids=str)
def test_windows_learn_as_the_reference_says(
    grid: tuple[int, int], dtype: torch.dtype, class_token: bool
) -> None:
    bias = pe.SwinBias(4, grid, class_token=class_token).double()
    positions = Positions.grid(*grid, leading=int(class_token))
    s = replace(WINDOW, q_len=positions.q_len, k_len=positions.q_len)
    q, k, v = (x.to(dtype).requires_grad_() for x in inputs(s, drawing(1)))
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    leaves = list(bias.parameters())
    wanted = with_gradients("reference", [*wide, *leaves], [bias], positions=positions)
    got = with_gradients("native", [q, k, v, *leaves], [bias], positions=positions)
    close(got, wanted, dtype)


def test_keys_in_any_order_and_a_table_of_all_heads() -> None:
    s = replace(WINDOW, q_len=90, k_len=150)
    counted = torch.arange(150)
    shuffled = torch.randperm(150, generator=torch.Generator().manual_seed(3))
    for index in (shuffled, counted.flip(0), counted // 2, counted):
        q_index, k_index = index[None, :90], index[None]
        check(s, [table(s, q_index, k_index, heads=1)])
        check(s, [table(s, q_index, k_index), pe.ALiBi(4)], causal=True)


def test_what_lies_beyond_the_table_reads_its_ends() -> None:
    s, counted = replace(WINDOW, q_len=70, k_len=130), torch.arange(130)
    for index in (counted * 3 - 100, counted - 60, counted * 2**40):
        check(s, [table(s, index[None, :70], index[None], reach=9)])


def test_windows_that_are_documents_and_padding() -> None:
    s, index = replace(WINDOW, q_len=147, k_len=147), cells(7, 7).repeat(1, 3)
    mask, documents = torch.ones(3, 147), (torch.arange(147) // 49).expand(3, -1)
    mask[1, 98:] = 0
    for where in ({"documents": documents}, {"documents": documents, "attention_mask": mask}):
        positions = Positions.build(147, 147, **where)
        term = table(s, index, index)
        leaves = [x.requires_grad_() for x in inputs(s, drawing(5))] + learned([term])
        sides = []
        for backend in ("native", "reference"):
            out = attend(*leaves[:3], term, positions=positions, backend=backend)
            out = out * mask[:, None, :, None]
            sides.append([out, *torch.autograd.grad(out.sin().sum(), leaves)])
        close(*sides)


def test_one_query_reads_its_row() -> None:
    s, index = replace(WINDOW, q_len=1, k_len=130), cells(10, 13)
    for at in (0, 77, 129):
        check(s, [table(s, index[:, at : at + 1], index, reach=300), pe.ALiBi(4)])


def test_several_threads_give_the_same_bits_twice() -> None:
    s, threads = replace(WINDOW, q_len=144, k_len=144), torch.get_num_threads()
    term = table(s, cells(12, 12), cells(12, 12), reach=300)
    leaves = [x.requires_grad_() for x in inputs(s, drawing(32))] + learned([term])
    torch.set_num_threads(3)
    try:
        once, again = (with_gradients("native", leaves, [term]) for _ in range(2))
    finally:
        torch.set_num_threads(threads)
    assert all(map(torch.equal, once, again))
    close(once, with_gradients("reference", leaves, [term]))


def test_what_is_no_number_stays_with_its_difference() -> None:
    q, k, v = inputs(WINDOW, drawing(33))
    term = table(WINDOW, cells(7, 7), cells(7, 7))
    values = term.values.clone()
    # Two columns to the right of the query, which the last two columns of the window do not have.
    values[:, term.zero + 2] = torch.nan
    out = attend(q, k, v, replace(term, values=values), backend="native").isnan().all(-1)
    assert out.view(3, 4, 7, 7)[..., :5].all()
    assert not out.view(3, 4, 7, 7)[..., 5:].any()
    values[:, term.zero + 2] = -torch.inf
    check(WINDOW, [replace(term, values=values)])


@pytest.mark.parametrize("learns", [True, False])
def test_auto_leaves_small_windows_to_sdpa_in_more_than_16_bits(learns: bool) -> None:
    def taken(side: int, dtype: torch.dtype = torch.float32) -> bool:
        q = torch.ones(2, 3, side**2, 8, dtype=dtype)
        bias, positions = pe.SwinBias(3, (side, side)), Positions.grid(side, side)
        with torch.set_grad_enabled(learns):
            said = explain_backend(q, q, q, bias, positions=positions)
        if said != "native: taken":
            assert "windows of fewer than" in said
            assert said.endswith("sdpa: taken")
        return said == "native: taken"

    assert (taken(14), taken(13), taken(7), taken(6)) == (True, learns, learns, False)
    assert taken(4, torch.bfloat16)
    assert taken(4, torch.float16)
