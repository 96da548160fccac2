"""Rotations whose angles tokens tell: of what they are cases, and what they refuse."""

import pytest
import torch

from posenc import (
    CacheError,
    Context,
    Mamba3Rotary,
    RollingCache,
    Rotary,
    SelectiveRotary,
    SettingError,
    ShapeError,
    SlidingWindow,
    attend,
    scores,
)
from tests.support.oracles import drawing


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
