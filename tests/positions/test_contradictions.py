"""Every way of contradicting oneself about positions, and what is said of it."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from posenc import Documents, Positions, PositionsError, SlidingWindow, Tokens, attend, lower
from posenc.mask_rules import Window
from posenc.positions import as_positions
from tests.support.refusals import assert_refused


def plain(count: int) -> Tokens:
    return Tokens(torch.arange(count))


def ids(*values: float) -> torch.Tensor:
    return torch.tensor(values)


BAD = {
    "a hole in the mask": (
        lambda: Positions.build(attention_mask=torch.tensor([[1, 1, 0], [1, 0, 1]])),
        ["attention_mask", "row 1", "hole", "contiguous"],
    ),
    "a mask of one dimension": (
        lambda: Positions.build(attention_mask=torch.ones(3)),
        [r"attention_mask", r"\(3,\)", r"\(b, k_len\) is needed"],
    ),
    "a document that comes back": (
        lambda: Positions.build(documents=ids(4, 4, 7, 4).long()),
        ["documents", r"\[4, 7, 4\]", "contiguous"],
    ),
    "an empty document": (
        lambda: Positions.build(lengths=[3, 0, 2]),
        [r"lengths=\[3, 0, 2\]", ">= 1"],
    ),
    "a negative length": (lambda: Positions.build(lengths=[-2]), [r"lengths=\[-2\]", ">= 1"]),
    "no lengths": (lambda: Positions.build(lengths=[]), [r"lengths=\[\]"]),
    "lengths that do not add up": (
        lambda: Positions.build(7, 7, lengths=[3, 5]),
        ["7 keys", "8 tokens"],
    ),
    "documents twice": (
        lambda: Positions.build(lengths=[2], documents=ids(0, 0).long()),
        ["documents or lengths, not both"],
    ),
    "documents of another batch": (
        lambda: Positions.build(attention_mask=torch.ones(3, 2), documents=torch.zeros(2, 2)),
        [r"\(2, 2\)", r"\(3, 2\)", "batch"],
    ),
    "a mask of another length": (
        lambda: Positions.build(5, attention_mask=torch.ones(1, 4), k_len=6),
        ["6 keys", r"\(1, 4\)", "one entry per key"],
    ),
    "negative ids": (lambda: Positions.build(ids=ids(0, -3)), ["ids", "smallest id is -3"]),
    "negative ids with an extent": (
        lambda: Positions.build(ids=ids(0, -3), extent=9),
        ["smallest id is -3"],
    ),
    "ids that are not finite": (
        lambda: Positions.build(ids=ids(0.0, float("nan"))),
        ["ids must be finite"],
    ),
    "infinite ids": (lambda: Positions.build(ids=ids(float("inf"))), ["finite"]),
    "a tensor that is not finite": (
        lambda: as_positions(torch.tensor([[0.0, 1.0, torch.nan]]), 3),
        [r"shape \(1, 3\) hold nan at \[0, 2\]", "attention_mask"],
    ),
    "an infinite stamp in attention": (
        lambda: attend(*torch.zeros(3, 1, 1, 2, 8), positions=torch.tensor([0.0, torch.inf])),
        [r"hold inf at \[1\]", "coordinates are finite"],
    ),
    "ids beyond the extent": (
        lambda: Positions.build(ids=ids(0, 9), extent=5),
        ["extent=5", "largest position is 9", "at least 10"],
    ),
    "ids in half precision": (
        lambda: Positions.build(ids=ids(0, 1).bfloat16()),
        ["bfloat16", "int64 or float64"],
    ),
    "a tensor in half precision": (
        lambda: as_positions(ids(0, 1).half(), 2),
        ["float16", "int64 or float64"],
    ),
    "more queries than keys": (
        lambda: Positions.build(5, 3),
        ["5 queries", "3 keys", r"Positions\(Tokens\(\.\.\.\), Tokens\(\.\.\.\)\)"],
    ),
    "no length": (lambda: Positions.build(), ["needs q_len"]),
    "int32": (
        lambda: Tokens(torch.arange(3).int()),
        ["position=", "torch.int32", "int64"],
    ),
    "float32": (
        lambda: Tokens(torch.arange(3.0)),
        ["position=", "torch.float32", r"\.double\(\)"],
    ),
    "no token dimension": (
        lambda: Tokens(torch.tensor(1)),
        [r"shape \(\)", r"\(b, t, axes\)"],
    ),
    "causal with more queries": (
        lambda: Positions(plain(5), plain(3), causal=True),
        ["5 queries", "3 keys"],
    ),
    "a window over fewer keys than queries": (
        lambda: Positions(plain(5), plain(3)).visible([Window(2)]),
        ["5 queries", "3 keys", "an order for each"],
    ),
    "the same, lowered": (
        lambda: lower(SlidingWindow(2), Positions(plain(5), plain(3))),
        ["5 queries", "3 keys", "an order for each"],
    ),
    "an order of another length": (
        lambda: Tokens(torch.arange(3), order=torch.arange(4)),
        ["order", r"\(4,\)", "3 positions"],
    ),
    "a mask without a batch": (
        lambda: Tokens(torch.arange(3), valid=torch.ones(3) > 0),
        ["valid", r"\(3,\)", r"\(b, t\)"],
    ),
    "a mask of numbers": (
        lambda: Tokens(torch.arange(3), valid=torch.ones(1, 3)),
        ["valid", "torch.float32", "torch.bool"],
    ),
    "documents of keys alone": (
        lambda: Positions(plain(3), Tokens(torch.arange(3), document=torch.arange(3))),
        ["document of one side is missing", "give both"],
    ),
    "the midst of tokens that are counted": (lambda: plain(5)[1:3], ["ordered"]),
    "a single token by its number": (lambda: plain(5)[2], [r"Tokens\[2\]", "a slice"]),
    "tokens of which some have a document": (
        lambda: plain(3) + Tokens(torch.arange(3), document=torch.arange(3)),
        ["document", "give both"],
    ),
    "documents upon padding": (
        lambda: lower(
            Documents(ids(0, 0).long()), Positions.build(attention_mask=torch.ones(1, 2))
        ),
        ["Documents", r"Positions\.build\(documents=\.\.\., \.\.\.\)"],
    ),
    "documents of another length": (
        lambda: Documents(ids(0, 0).long()).place(Positions.build(3)),
        ["3 keys", r"\(2,\)"],
    ),
    "another number of queries": (
        lambda: as_positions(Positions.build(2, 5), 3, 5),
        ["3 queries and 5 keys", "2 queries"],
    ),
    "a tensor of another length": (
        lambda: as_positions(torch.arange(4), 5),
        ["5 queries and 5 keys", "4 keys"],
    ),
    "two causalities": (
        lambda: as_positions(Positions.build(3, causal=True), 3, causal=False),
        ["causal=False", "causal=True", "leave causal away"],
    ),
}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("name", BAD)
def test_what_contradicts_itself_is_refused(name: str) -> None:
    call, said = BAD[name]
    assert_refused(call, PositionsError, said)


# A check of types would come before the library's own.
@pytest.mark.unchecked
def test_a_bare_tensor_is_no_side() -> None:
    with pytest.raises(PositionsError, match=r"queries=.*Tensor.*give Tokens\(position"):
        Positions(torch.arange(3), plain(3))


@pytest.mark.parametrize("length", [0, -1])
def test_no_token_is_an_error(length: int) -> None:
    with pytest.raises(PositionsError, match=f"{length} queries.*at least one token"):
        Positions.build(length)


def test_stamps_without_values_are_not_read() -> None:
    stamps = torch.tensor([0.0, 0.5])
    assert as_positions(stamps.to("meta"), 2).device.type == "meta"
    assert torch.func.vmap(lambda x: as_positions(x, 2).keys.position)(stamps[None]).shape == (1, 2)
    with FakeTensorMode():
        assert as_positions(torch.empty(2), 2).k_len == 2
