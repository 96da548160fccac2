"""Terms of other sizes than the rest of a call: refused by name, before a kernel reads them."""

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import posenc as pe
from posenc import PosencError, Positions, ShapeError, attend
from posenc import terms as t
from posenc.backends import BACKENDS
from posenc.errors import UnsupportedError
from posenc.native.library import LIBRARY
from posenc.normal_form.shapes import BY_OWN, OF_CALL, OF_TERM, SHAPES
from tests.support.oracles import drawing
from tests.support.term_examples import TERMS, Sizes, inputs

SIZES = Sizes()
# Every query head may turn keys in its own way, or those that share a key head in one.
FITTING = {
    "b": {2}, "h": {6}, "g": {3}, "tq": {3}, "tk": {7}, "d": {10}, "v": {4}, "h|g": {3, 6}
}  # fmt: skip
# As long as its author likes: what is held for distances and counts, and rows that these share.
FREE = {"values n", "weight rows", "weight n", "row_of n", "by_distance n"}


def made(name: str) -> Any:
    return TERMS[name](SIZES, drawing())


def shape_of(term: t.Term, field: str) -> tuple[str, ...]:
    by_own = isinstance(term, t.GatherTable) and term.own is not None
    return (BY_OWN if by_own else SHAPES[type(term)])[field]


def resized(x: Tensor, dim: int, size: int) -> Tensor:
    """The same numbers again and again, or fewer of them."""
    return x.index_select(dim, torch.arange(size) % x.shape[dim])


def others(term: Any) -> Iterator[tuple[str, Any]]:
    """The term with one of its tensors in another size, in every way in which that is wrong."""
    for name, turn in t.turns_in(term).items():
        for said, other in others(turn):
            yield f"{name}.{said}", replace(term, **{name: other})
    if t.turns_in(term):
        return
    for field in fields(term):
        x = getattr(term, field.name)
        if not isinstance(x, Tensor):
            continue
        for dim, letter in enumerate(shape_of(term, field.name)):
            now, whole = x.shape[dim], letter.removeprefix("1|")
            if f"{field.name} {whole}" in FREE:
                continue
            sizes = {now // 2, now - 1, 2 * now, now + 11} - {0, now} - FITTING.get(whole, set())
            sizes -= {1} if letter != whole else set()
            for size in sizes:
                other = resized(x, dim, size).contiguous()
                yield f"{field.name}[{dim}] = {size}", replace(term, **{field.name: other})


def able(backend: str, tensors: tuple[Tensor, Tensor, Tensor], term: Any) -> bool:
    try:
        attend(*tensors, term, causal=True, backend=backend)
    except UnsupportedError:
        return False
    return True


@pytest.mark.unchecked
@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
@pytest.mark.parametrize("name", TERMS)
def test_a_tensor_of_another_size_is_refused(name: str, backend: str) -> None:
    term, tensors = made(name), inputs(SIZES, drawing())
    if not able(backend, tensors, term):
        return
    for said, other in others(term):
        try:
            attend(*tensors, other, causal=True, backend=backend)
        except PosencError:
            continue
        pytest.fail(f"{said} is taken")


@pytest.mark.unchecked
@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
@pytest.mark.parametrize("name", TERMS)
def test_tensors_of_other_sizes_than_the_terms_are_refused_or_right(
    name: str, backend: str
) -> None:
    term, draw = made(name), drawing()
    lowered = pe.lower(term, Positions.build(SIZES.q_len, SIZES.k_len, causal=True))
    if not able(backend, inputs(SIZES, drawing()), term):
        return
    for other in (
        {"dim": 5},
        {"dim": 21},
        {"value_dim": 3},
        {"value_dim": 15},
        {"heads": 3},
        {"heads": 12},
        {"batch": 1},
        {"batch": 5},
        {"key_heads": 2},
        {"key_heads": 6},
    ):
        tensors = inputs(replace(SIZES, **other), draw)
        try:
            expected = attend(*tensors, lowered, backend="reference")
        except PosencError as error:
            with pytest.raises(type(error)):
                attend(*tensors, lowered, backend=backend)
        else:
            actual = attend(*tensors, lowered, backend=backend)
            torch.testing.assert_close(actual, expected)


def test_every_tensor_of_a_term_has_its_shape() -> None:
    """A term that is added without shapes would be read unasked."""
    for kind in get_args(t.Term):
        tensors = [field.name for field in fields(kind) if "Tensor" in str(field.type)]
        by_own = {*BY_OWN} if kind is t.GatherTable else set()
        assert set(tensors) <= {*SHAPES.get(kind, {})} | by_own, kind
    assert set(BY_OWN) <= {field.name for field in fields(t.GatherTable)}
    shapes = [*SHAPES.values(), BY_OWN]
    letters = {x.removeprefix("1|") for spec in shapes for one in spec.values() for x in one}
    assert letters == {*OF_CALL, *OF_TERM}


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        (
            t.Offset(torch.ones(1, 6, 3), torch.ones(1, 6, 8)),
            "Offset.k was made for 8 keys, but the positions for 7: construct what comes together",
        ),
        (
            t.Network(*torch.ones(1, 7), torch.ones(1, 3), *torch.ones(2, 4), *torch.ones(2, 6, 5)),
            r"Network.output_weight was made for 5 hidden units, but Network.hidden_weight for 4",
        ),
        (
            t.SinkLogit(torch.ones(6, 1)),
            r"SinkLogit.values has shape \(6, 1\), but \('1\|h',\) is needed",
        ),
        (
            t.ValueTable(torch.ones(1, 3, 5), 1, saturates=True),
            "ValueTable.weight was made for 5 dimensions of values, but v has 4: construct the "
            "encoding for values of 4 dimensions",
        ),
        (
            t.DenseBias(torch.ones(3, 1, 3, 7)),
            "DenseBias.values was made for 3 batch entries, but q has 2: give one row, or one",
        ),
        (
            [t.Slope(torch.ones(6)), t.SinkLogit(torch.ones(3))],
            "SinkLogit.values was made for 3 heads, but Slope.past for 6",
        ),
    ],
)
def test_what_is_said(terms: Any, said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        attend(*inputs(SIZES, drawing()), terms)


@pytest.mark.parametrize(
    "term",
    [
        t.DistanceTable(torch.zeros(6, 0), 0, saturates=True),
        t.GatherTable(torch.zeros(1, 0, 8), 0, side="q", saturates=True),
        t.ValueTable(torch.zeros(1, 0, 8), 0, saturates=True),
        t.GatherTable(torch.ones(1, 2, 8), 0, "q", row_of=torch.arange(0), saturates=True),
        t.CountTable(torch.zeros(1, 0, 8)),
        t.GridTable(torch.zeros(6, 0), torch.arange(3)[None], torch.arange(7)[None], 0),
    ],
    ids=lambda term: type(term).__name__,
)
def test_an_empty_table_is_refused(term: t.Term) -> None:
    """A kernel would read beside it: beyond its ends a table stays at its last entry."""
    with pytest.raises(ShapeError, match=r"\w+\.\w+ has shape \(.*0.*, which holds nothing: give"):
        pe.lower(term, Positions.build(3, 7, causal=True))


def test_a_sink_of_a_layer_is_one_of_its_heads() -> None:
    lowered = pe.lower(pe.ALiBi(6), Positions.build(3, 7, causal=True))
    with pytest.raises(ShapeError, match=r"SinkLogit\.values was made for 5 heads, but Slope"):
        lowered.with_sink(torch.zeros(5))


def test_tensors_on_other_devices_are_refused() -> None:
    """A kernel is given addresses, which say nothing of whose memory they are."""
    q, k, v = inputs(SIZES, drawing())
    for tensors, said in (
        ((q.to("meta"), k, v), "q is on meta, k on cpu and v on cpu: move them to one"),
        ((q, k.to("meta"), v), "k on meta"),
        ((q, k, v.to("meta")), "v on meta"),
    ):
        with pytest.raises(ShapeError, match=said):
            attend(*tensors, pe.ALiBi(6))
    # As of a module whose buffers were never given memory: it would be no bias at all.
    nowhere = t.DistanceTable(torch.ones(6, 5, device="meta"), 2, saturates=True)
    with pytest.raises(ShapeError, match=r"values was made for the meta device, but q is on a CPU"):
        attend(q, k, v, nowhere)
    with pytest.raises(ShapeError, match=r"past was made for a CPU, but .*values for the meta dev"):
        attend(q, k, v, [nowhere, t.Slope(torch.ones(6))])


def test_a_gpu_that_is_not_here() -> None:
    with FakeTensorMode():
        q, k, v = (torch.ones(2, 6, 7, 10) for _ in range(3))
        table = t.DistanceTable(torch.ones(6, 5, device="cuda"), 2, saturates=True)
        lowered = pe.lower(table, Positions.build(7))
        with pytest.raises(ShapeError, match="made for GPU 0, but q is on a CPU: move the encod"):
            attend(q, k, v, lowered)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("start", [-1, 3, 2**40])
def test_no_dimension_beside_a_head_is_turned(start: int, layout: t.Layout) -> None:
    q, k, v = inputs(SIZES, drawing())
    draw = drawing()
    term = t.Rotate(draw(1, 1, 3, 4), draw(1, 1, 7, 4), layout, start=start)
    with pytest.raises(ShapeError, match=f"turns dimensions {start} to {start + 7}, but the heads"):
        attend(q, k, v, term)
    for inplace in (False, True):
        before = q.clone()
        with pytest.raises(ShapeError, match=f"turns dimensions {start}"):
            pe.rotate(q, k, term, inplace=inplace)
        assert torch.equal(q, before)


@pytest.mark.graph
@pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))
def test_a_graph_of_any_batch_is_bound_to_that_of_the_terms() -> None:
    draw = drawing()
    offset = t.Offset(draw(2, 6, 64).float(), draw(2, 6, 64).float())
    lowered = pe.lower(offset, Positions.build(64, causal=True))
    attending = partial(attend, encoding=lowered, backend="native")
    compiled = torch.compile(attending, backend="aot_eager")
    for batch in (2, 5, 7):
        q, k, v = (x.float() for x in inputs(Sizes(batch=batch, q_len=64, k_len=64), draw))
        with torch.no_grad():
            if batch == 2:
                expected = attend(q, k, v, lowered, backend="reference")
                torch.testing.assert_close(compiled(q, k, v), expected)
            else:
                with pytest.raises(ShapeError, match=f"2 batch entries, but q has {batch}"):
                    compiled(q, k, v)
