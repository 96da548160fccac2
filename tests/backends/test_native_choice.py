"""Which calls the C attention kernels take, and why they leave others."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, UnsupportedError, attend, explain_backend
from posenc import terms as t
from posenc.backends import native_choice
from posenc.native.library import LIBRARY
from posenc.torch_modes import FLOATS
from tests.support.oracles import drawing
from tests.support.term_examples import Sizes

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))


def refusals() -> Iterator[tuple[str, object, dict]]:
    s = Sizes(1, 2, 2, 20, 20, 8, 8)
    draw = drawing(22)
    gather = t.GatherTable(draw(1, 3, 8), 1, "q", saturates=True)
    by_query = t.Scale(draw(1, 1, 20))
    yield "DenseBias is no function", t.DenseBias(draw(1, 1, 20, 20)), {}
    yield "counts content alone", [gather, t.CountTable(draw(1, 3, 8))], {}
    yield "beside a Rotate", [gather, pe.Rotary(8)], {}
    inside = t.DistanceTable(draw(1, 5), 2, inside=True, saturates=True)
    yield "counts content alone", [inside, t.CountTable(draw(1, 3, 8))], {}
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


def on_a_processor(
    monkeypatch: pytest.MonkeyPatch,
    wide: bool = True,
    pairs: bool = False,
    matrix: bool = False,
    lacks: bool = False,
) -> None:
    """With vectors of 512 bits, which may multiply pairs of bfloat16, a matrix unit, or one that
    the kernels know nothing of.
    """
    monkeypatch.setattr(native_choice, "_is_wide", lambda: wide)
    monkeypatch.setattr(native_choice, "_multiplies_pairs", lambda: pairs)
    monkeypatch.setattr(native_choice, "_has_matrix_unit", lambda: matrix)
    monkeypatch.setattr(native_choice, "_lacks_matrix_unit", lambda: lacks)


def test_auto_takes_it_where_sdpa_would_need_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_processor(monkeypatch)
    q = torch.ones(1, 2, 20, 8)
    for encoding in (pe.ALiBi(2), pe.T5Bias(2), pe.Shaw(8), [pe.Rotary(8), pe.SlidingWindow(5)]):
        assert explain_backend(q, q, q, encoding, causal=True) == "native: taken"
    for encoding in (None, pe.Rotary(8)):
        said = explain_backend(q, q, q, encoding, causal=True)
        assert said == (
            "native: attention without bias and mask is left to SDPA "
            "under 32 queries or 8192 pairs of all heads\nsdpa: taken"
        )
    said = explain_backend(q[:, :, :2], q, q, pe.ALiBi(2), causal=True)
    assert said.startswith("native: fewer than 8 queries are left to others")


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("encoding", [None, pe.Rotary(8)])
@pytest.mark.parametrize("matrix", [True, False])
def test_auto_takes_plain_attention_that_is_large(
    encoding: object, causal: bool, matrix: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_processor(monkeypatch, matrix=matrix)

    def taken(
        batch: int,
        heads: int,
        length: int,
        dtype: torch.dtype = torch.float32,
        learns: bool = False,
    ) -> bool:
        q = torch.ones(batch, heads, length, 8, dtype=dtype, requires_grad=learns)
        return explain_backend(q, q, q, encoding, causal=causal) == "native: taken"

    for dtype in (torch.float32, torch.bfloat16):
        assert all((taken(1, 2, 64, dtype), taken(2, 1, 64, dtype), taken(1, 8, 32, dtype)))
        assert not any((taken(1, 7, 32, dtype), taken(1, 64, 31, dtype), taken(1, 2, 63, dtype)))
    # A gradient is a larger call of the kernel.
    assert all((taken(1, 2, 128, learns=True), taken(1, 32, 32, learns=True)))
    assert not any((taken(1, 2, 127, learns=True), taken(1, 8, 63, learns=True)))
    assert taken(1, 8, 32, torch.bfloat16, learns=True)
    half = torch.float16
    assert all((taken(1, 32, 8, half), taken(2, 1, 32, half), taken(1, 8, 16, half)))
    assert not any((taken(1, 31, 8, half), taken(1, 64, 7, half), taken(1, 1, 45, half)))


def steps(queries: int, shared: int, keys: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    q = torch.ones(1, 8, queries, 8, dtype=dtype)
    return q, torch.ones(1, 8 // shared, keys, 8, dtype=dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_fewer_queries_are_few_where_no_head_shares_its_keys(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_processor(monkeypatch)

    def taken(queries: int, shared: int) -> bool:
        q, k = steps(queries, shared, queries, dtype)
        return explain_backend(q, k, k, pe.ALiBi(8)) == "native: taken"

    assert (taken(8, 1), taken(7, 1)) == (True, False)
    in_half = dtype.itemsize == 2
    assert (taken(12, 2), taken(11, 2), taken(8, 2)) == (True, in_half, in_half)


@pytest.mark.parametrize(
    ("wide", "dtype", "few"),
    [
        (True, torch.float32, 8),
        (False, torch.float32, 17),
        (False, torch.bfloat16, 17),
        (True, torch.float64, 8),
        (False, torch.float64, 8),
    ],
)
def test_more_queries_are_few_beside_a_cache(
    wide: bool, dtype: torch.dtype, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_processor(monkeypatch, wide=wide)

    def taken(queries: int, encoding: object, keys: int = 64, learns: bool = False) -> bool:
        q, k = steps(queries, 1, keys, dtype)
        said = explain_backend(q.requires_grad_(learns), k, k, encoding, causal=True)
        return said == "native: taken"

    for encoding in (pe.Rotary(8), pe.ALiBi(8), pe.FIRE(8)):
        assert (taken(few, encoding), taken(few - 1, encoding)) == (True, False)
        assert taken(8, encoding, learns=True)
    # SDPA adds no vectors and no counts.
    assert all(taken(8, encoding) for encoding in (pe.Shaw(8, values=False), pe.CoPE(8)))
    assert taken(11, pe.ALiBi(8), keys=11)


@pytest.mark.parametrize(("wide", "pairs"), [(True, True), (True, False), (False, False)])
def test_auto_takes_it_for_causal_steps_in_bfloat16(
    wide: bool, pairs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_processor(monkeypatch, wide=wide, pairs=pairs)

    def taken(queries: int, shared: int, keys: int = 20, causal: bool = True) -> bool:
        q, k = steps(queries, shared, keys, torch.bfloat16)
        return explain_backend(q, k, k, pe.Rotary(8), causal=causal) == "native: taken"

    # A query for each head that shares keys, or two.
    assert all(taken(2 * shared, shared) == wide for shared in (1, 2))
    assert [taken(3, 2), taken(7, 4), taken(4, 4)] == [pairs] * 3
    assert not taken(3, 4)
    # Where SDPA needs no mask, as many keys.
    assert not any((taken(4, 1, causal=False), taken(4, 1, keys=4)))
    assert taken(4, 1, keys=256, causal=False) == wide
    assert not any((taken(4, 1, keys=255, causal=False), taken(4, 2, keys=512, causal=False)))
    assert taken(8, 4) == wide
    assert taken(1, 1)


@pytest.mark.parametrize("matrix", [True, False])
def test_few_queries_of_heads_that_share_keys_fill_the_matrix_unit_in_sdpa(
    matrix: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_processor(monkeypatch, matrix=matrix)

    def taken(queries: int, shared: int = 4, encoding: object = None, keys: int = 600) -> bool:
        q, k = steps(queries, shared, keys, torch.bfloat16)
        return explain_backend(q, k, k, encoding, causal=True) == "native: taken"

    assert all(taken(23, encoding=x) != matrix for x in (None, pe.Rotary(8)))
    assert taken(7, shared=2) != matrix
    assert taken(24)
    assert taken(1)
    assert taken(2, shared=1)
    # SDPA would need a mask of numbers.
    assert all((taken(8, encoding=pe.ALiBi(8)), taken(4, shared=2, encoding=pe.ALiBi(8))))


def test_sdpa_takes_plain_bfloat16_in_a_matrix_unit_that_the_kernels_do_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_a_processor(monkeypatch, lacks=True)
    q = torch.ones(1, 8, 64, 8)
    for encoding in (None, pe.Rotary(8)):
        said = explain_backend(*[q.bfloat16()] * 3, encoding, causal=True)
        assert "in a matrix unit (AMX) that these kernels do not use" in said
        assert said.endswith("sdpa: taken")
        assert explain_backend(q, q, q, encoding, causal=True) == "native: taken"
    assert explain_backend(*[q.bfloat16()] * 3, pe.ALiBi(8), causal=True) == "native: taken"


def test_auto_takes_it_for_steps_that_are_slow_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_processor(monkeypatch)
    q, k = torch.ones(1, 4, 2, 8), torch.ones(1, 4, 300, 8)

    def taken(q: Tensor, k: Tensor, encoding: object) -> bool:
        return explain_backend(q, k, k, encoding, causal=True) == "native: taken"

    assert taken(q, k, [pe.Rotary(8), pe.SlidingWindow(75)])
    assert not taken(q, k, [pe.Rotary(8), pe.SlidingWindow(76)])
    q, k = q.bfloat16(), k.bfloat16()
    assert taken(q, k, pe.Rotary(8))
    assert not taken(q, k[:, :2], pe.Rotary(8))
    assert taken(q, k[:, :2], pe.Shaw(8, values=True))
    assert not taken(q, k[:, :2], pe.Shaw(8, values=False))


def test_auto_takes_it_for_steps_in_float16_which_are_slower_yet_elsewhere() -> None:
    def taken(heads: int, shared: int, keys: int, queries: int = 2, causal: bool = False) -> bool:
        q = torch.ones(1, heads, queries, 8).half()
        k = torch.ones(1, heads // shared, keys, 8).half()
        return explain_backend(q, k, k, pe.Rotary(8), causal=causal) == "native: taken"

    # 256 keys or more for each of up to 4 heads that share them.
    assert all(taken(8, shared, 256 * shared) for shared in (1, 2, 4))
    assert not any(taken(8, shared, 256 * shared - 1) for shared in (1, 2, 4))
    assert not taken(8, 8, 4096)
    # SDPA needs a mask for several that are causal.
    assert all(taken(8, shared, 9, causal=True) for shared in (1, 8))
    # Not where its own causality is all of it.
    assert not taken(8, 8, 2, causal=True)
    assert all(taken(8, shared, 9, queries=1) for shared in (1, 8))


def test_auto_takes_it_for_steps_with_a_table_of_values() -> None:
    q, k = torch.ones(1, 4, 2, 8), torch.ones(1, 4, 256, 8)

    def taken(q: Tensor, k: Tensor) -> bool:
        return explain_backend(q, k, k, pe.Shaw(8), causal=True) == "native: taken"

    assert taken(q, k)
    assert taken(q.bfloat16(), k.bfloat16())
    assert taken(q, k[:, :2])


@pytest.mark.parametrize("encoding", [None, pe.Rotary(8), pe.ALiBi(4), pe.Shaw(8), pe.T5Bias(4)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_auto_takes_it_for_a_single_query(encoding: object, dtype: torch.dtype) -> None:
    q, k = torch.ones(1, 4, 1, 8, dtype=dtype), torch.ones(1, 2, 300, 8, dtype=dtype)
    for keys in (k[:, :, :1], k):
        assert explain_backend(q, keys, keys, encoding, causal=True) == "native: taken"
