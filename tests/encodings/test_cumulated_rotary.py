"""Rotations whose angles tokens tell: of what they are cases, and what they refuse."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from posenc import (
    Cache,
    CacheError,
    Context,
    Mamba3Rotary,
    Positions,
    RollingCache,
    Rotary,
    SelectiveRotary,
    SettingError,
    ShapeError,
    SlidingWindow,
    Tokens,
    attend,
    scores,
)
from tests.support.oracles import drawing
from tests.support.padded_steps import DIM, HEADS, WIDTH, errors, padded


def test_equal_tokens_turn_as_rope_does() -> None:
    draw = drawing(1)
    q, k = draw(2, 4, 9, 8), draw(2, 4, 9, 8)
    x = draw(1, 1, 32).expand(2, 9, 32)
    selective = SelectiveRotary(32, 4, 8, conv=1, base=100.0).double()
    with torch.no_grad():
        # Whatever the token, phi is 1.
        unit = (x[0, 0].view(4, 8) / x[0, 0].view(4, 8).norm(dim=-1, keepdim=True)).flatten()
        selective.down.weight.copy_(unit.expand(16, -1) / 4)
        selective.up.weight.fill_(1 / 16)
    found = scores(q, k, selective, causal=True, context=Context(x))
    expected = scores(q, k, Rotary(8, base=100.0), causal=True)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_a_convolution_needs_every_token() -> None:
    q, x = drawing(2)(1, 2, 6, 8), drawing(3)(1, 6, 16)
    parts = [SelectiveRotary(16, 2, 8).double(), SlidingWindow(3)]
    with pytest.raises(CacheError, match="keeps a payload of every token"):
        attend(q, q, q, parts, causal=True, context=Context(x), cache=RollingCache(3))


# The first tokens that are decoded follow padding, of which one row has less than the other.
@pytest.mark.parametrize("make", [Cache, lambda: Cache("raw")])
@pytest.mark.parametrize(("conv", "gate"), [(2, False), (3, True), (4, False)])
@pytest.mark.parametrize("rows", [((0, 3), (0, 5)), ((0, 1), (2, 4)), ((2, 5), (0, 5)), ((0, 2),)])
def test_a_convolution_reads_the_tokens_before_and_not_the_padding(
    rows: Any, conv: int, gate: bool, make: Callable[[], Cache]
) -> None:
    encoding = SelectiveRotary(WIDTH, HEADS, DIM, rank=5, conv=conv, gate=gate, base=50.0).double()
    for sized in (1, 2):
        assert max(errors([encoding], make(), padded(*rows, count=5), 4, sized)) < 1e-12


def test_a_convolution_stops_at_documents_behind_padding_too() -> None:
    draw, documents = drawing(4), torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]])
    mask = torch.tensor([[1, 1, 0, 1, 1], [1, 1, 0, 0, 1]]).bool()
    encoding = SelectiveRotary(WIDTH, HEADS, DIM, conv=3).double()
    keys = Tokens(torch.arange(5), document=documents, valid=mask)
    x = draw(2, 5, WIDTH)
    found = encoding.steps(Positions(keys, keys, True), Context(x))
    for row in range(2):
        for of in range(2):
            own = (mask[row] & (documents[row] == of)).nonzero()[:, 0]
            alone = Positions.build(len(own), causal=True)
            expected = encoding.steps(alone, Context(x[row : row + 1, own]))
            torch.testing.assert_close(found[row : row + 1, ..., own], expected)
    assert not found.masked_select(~mask[:, None, None]).any()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SelectiveRotary(18, 4, 8), "dim must be a multiple of heads"),
        (lambda: SelectiveRotary(16, 4, 7), "head_dim=7"),
        (lambda: SelectiveRotary(16, 4, 8, conv=0), r"conv=0.* 1 or more"),
        (lambda: Mamba3Rotary(16, 4, 8, rotary_dim=10), "at most head_dim can turn"),
    ],
)
def test_bad_settings(make, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        make()


def test_another_input_is_refused() -> None:
    q = torch.zeros(1, 4, 5, 8)
    with pytest.raises(ShapeError, match=r"\(batch, tokens, 16\) is needed, the layer's input"):
        attend(q, q, q, Mamba3Rotary(16, 4, 8), causal=True, context=Context(torch.zeros(1, 5, 9)))
