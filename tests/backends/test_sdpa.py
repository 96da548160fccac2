"""Backend `sdpa`: a step of decoding copies no cache, and what `auto` leaves to others."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import posenc as pe
from posenc import Positions, attend, lower
from posenc.backends import sdpa
from posenc.backends.backend import Call
from tests.support.largest import Largest

HEADS, KEY_HEADS, DIM, KEYS = 8, 2, 16, 4096

ENCODINGS: dict[str, Callable[[], list[pe.Encoding]]] = {
    "nothing": lambda: [],
    "alibi": lambda: [pe.ALiBi(HEADS)],
    "t5": lambda: [pe.T5Bias(HEADS)],
    "kerple": lambda: [pe.KERPLE(HEADS)],
    "shaw keys": lambda: [pe.Shaw(DIM, clip=8, values=False)],
    "window": lambda: [pe.SlidingWindow(100), pe.Sinks(2)],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("name", ENCODINGS)
def test_a_step_of_decoding_copies_no_cache(name: str, queries: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    q = torch.randn(1, HEADS, queries, DIM).to(dtype)
    k, v = torch.randn(2, 1, KEY_HEADS, KEYS, DIM).to(dtype).unbind()
    with torch.no_grad():
        lowered = lower(ENCODINGS[name](), Positions.build(queries, KEYS, causal=True))
        with Largest() as seen:
            out = attend(q, k, v, lowered, backend="auto" if queries == 1 else "sdpa")
    assert seen.elements <= max(k.numel() // 2, HEADS * queries * KEYS)
    expected = attend(q, k, v, lowered, backend="reference")
    torch.testing.assert_close(
        out, expected, rtol=0.02, atol=0.02 if dtype == torch.bfloat16 else 1e-5
    )


@pytest.mark.parametrize("queries", [3, 40])
@pytest.mark.parametrize("causal", [False, True])
def test_heads_that_share_keys_share_a_mask(causal: bool, queries: int) -> None:
    """In each row of a batch its own, with fewer numbers than the keys repeated and with more."""
    q = torch.randn(2, HEADS, queries, DIM, dtype=torch.float64)
    k, v = torch.randn(2, 2, KEY_HEADS, 50, DIM, dtype=torch.float64).unbind()
    padding = torch.arange(50) >= torch.tensor([[0], [7]])
    for place in ({}, {"attention_mask": padding}):
        positions = Positions.build(queries, 50, causal=causal, **place)
        actual = attend(q, k, v, positions=positions, backend="sdpa")
        expected = attend(q, k, v, positions=positions, backend="reference")
        torch.testing.assert_close(actual, expected)


def test_tables_come_with_four_dimensions() -> None:
    """With three, SDPA takes no fused kernel, and a step costs three times as much."""
    q = torch.randn(1, HEADS, 1, DIM)
    k, v = torch.randn(2, 1, HEADS, 64, DIM).unbind()
    with torch.no_grad(), torch.profiler.profile() as profile:
        attend(q, k, v, pe.T5Bias(HEADS), causal=True, backend="sdpa")
    names = {event.key for event in profile.key_averages()}
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in names


def declined(q: Tensor, k: Tensor, parts: list[object], **place: object) -> str | None:
    positions = Positions.build(q.shape[2], k.shape[2], **place)
    return sdpa.declines(Call(q, k, k, lower(parts, positions), 1.0, 0.0))


def test_large_masks_are_left_to_others() -> None:
    x, short, one = (torch.empty(1, 8, n, 4, device="meta") for n in (2048, 128, 1))
    bias = [pe.ALiBi(8)]
    said = declined(x, x, bias, causal=True)
    assert said == f"its mask would hold {8 * 2048**2} numbers"
    assert declined(x, x, [pe.SlidingWindow(64)], causal=True) is not None
    assert declined(x, x, [], causal=True) is None
    assert declined(x, x, [pe.Rotary(4)], causal=False) is None
    assert declined(short, short, bias, causal=True) is None
    assert declined(one, x, bias, causal=True) is None


def test_what_sdpa_returns_may_lie_in_memory_by_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its kernels for GPUs keep the heads of a token together.
    theirs = F.scaled_dot_product_attention

    def by_tokens(*args: Any, **options: Any) -> Tensor:
        return theirs(*args, **options).transpose(1, 2).contiguous().transpose(1, 2)

    q, (k, v) = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 2, 6, 8).unbind()
    expected = pe.attend(q, k, v, backend="reference")
    monkeypatch.setattr(F, "scaled_dot_product_attention", by_tokens)
    torch.testing.assert_close(pe.attend(q, k, v, backend="sdpa"), expected)
