"""One query without encoding: SDPA is called straight, and gives what attend gives by name."""

from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import attention

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call was found to be such a query."""
    answers: list[bool] = []
    real = attention.suits_one_query

    def asked(*given: Any) -> bool:
        answers.append(real(*given))
        return answers[-1]

    monkeypatch.setattr(attention, "suits_one_query", asked)
    return answers


def qkv(heads: int = 4, key_heads: int = 4, keys: int = 7, width: int = 8) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (2, heads, 1, 8), (2, key_heads, keys, 8), (2, key_heads, keys, width)
    return [torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("causal", [None, False, True])
@pytest.mark.parametrize("sizes", [{}, {"key_heads": 2}, {"key_heads": 1, "width": 5}], ids=str)
@pytest.mark.parametrize("scale", [None, 0.3, -1.0])
def test_it_gives_the_same_bits(
    dtype: torch.dtype,
    causal: bool | None,
    sizes: dict[str, int],
    scale: float | None,
    taken: list[bool],
) -> None:
    q, k, v = (x.to(dtype) for x in qkv(**sizes))
    actual = attention.attend(q, k, v, causal=causal, scale=scale)
    assert taken == [True]
    expected = attention.attend(q, k, v, causal=causal, scale=scale, backend="sdpa")
    assert torch.equal(actual, expected)
    assert actual.dtype == expected.dtype
    slow = attention.attend(*(x.double() for x in (q, k, v)), scale=scale, backend="reference")
    bound = 1e-12 if dtype == torch.float64 else 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(actual.double(), slow, rtol=bound, atol=bound)


@pytest.mark.parametrize("keys", [1, 255, 256, 300])
@pytest.mark.parametrize("key_heads", [1, 4])
@pytest.mark.parametrize("dtype", FLOATS)
def test_it_is_taken_where_auto_takes_sdpa(
    keys: int, key_heads: int, dtype: torch.dtype, taken: list[bool]
) -> None:
    q, k, v = (x.to(dtype) for x in qkv(key_heads=key_heads, keys=keys))
    attention.attend(q, k, v, causal=True)
    assert taken == ["sdpa: taken" in pe.explain_backend(q, k, v, causal=True)]


def test_gradients_go_the_long_way(taken: list[bool]) -> None:
    for at in range(3):
        tensors = qkv()
        tensors[at].requires_grad_()
        attention.attend(*tensors).sum().backward()
        assert tensors[at].grad is not None
        with torch.no_grad():
            attention.attend(*tensors)
    assert taken == 3 * [False, True]


@pytest.mark.usefixtures("unhooked")
def test_what_does_not_fit_is_refused_as_ever() -> None:
    q, k, v = qkv()
    for wrong in ((q[0], k, v), (q, k[:1], v), (q, k[..., :4], v), (q, k[:, :3], v[:, :3])):
        with pytest.raises(pe.ShapeError):
            attention.attend(*wrong)
    with pytest.raises(pe.PositionsError, match="0 keys"):
        attention.attend(*qkv(keys=0))
    with pytest.raises(pe.ShapeError, match="float8"):
        attention.attend(*(x.to(torch.float8_e4m3fn) for x in (q, k, v)))
