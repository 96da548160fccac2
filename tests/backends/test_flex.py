"""The FlexAttention backend: equal to the reference where it computes, clear where it does not."""

import threading
from typing import Any

import pytest
import torch

import posenc as pe
from posenc import Positions, Tokens, UnsupportedError, attend
from posenc import terms as t
from tests.support.oracles import drawing
from tests.support.term_examples import ADDITIONS, ARRANGEMENTS, TURNS, Sizes, arranged, inputs

SIZES = Sizes()
REFUSED = ("gather", "values", "count", "dense", "grid", "network", "zones", "products")


def able(name: str) -> bool:
    return not any(word in name for word in REFUSED)


@pytest.mark.parametrize("name", sorted(filter(able, TURNS | ADDITIONS)))
def test_it_equals_the_reference(name: str) -> None:
    draw = drawing()
    q, k, v = inputs(SIZES, draw)
    term = (TURNS | ADDITIONS)[name](SIZES, draw)
    parts = [term, t.Mask(t.Window(4))] if name in ("sink", "prefix") else [term]
    for causal, arrangement in zip((True, False, True, False, True), ARRANGEMENTS, strict=True):
        positions, _ = arranged(arrangement, SIZES, causal)
        expected = attend(q, k, v, parts, positions=positions, backend="reference")
        actual = attend(q, k, v, parts, positions=positions, backend="flex")
        torch.testing.assert_close(actual, expected)


def test_terms_compose() -> None:
    draw = drawing()
    s = Sizes(q_len=7)
    q, k, v = inputs(s, draw)
    parts = [TURNS["rotate half"](s, draw)]
    parts += [ADDITIONS[name](s, draw) for name in ("table", "slope", "offset", "scale", "window")]
    expected = attend(q, k, v, parts, causal=True, backend="reference")
    torch.testing.assert_close(attend(q, k, v, parts, causal=True, backend="flex"), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_low_precision_keeps_scores_in_float32(dtype: torch.dtype) -> None:
    draw = drawing()
    q, k, v = (x.to(dtype) for x in inputs(Sizes(q_len=7), draw))
    exact = attend(q.double(), k.double(), v.double(), pe.ALiBi(6), causal=True)
    got = attend(q, k, v, pe.ALiBi(6), causal=True, backend="flex")
    assert got.dtype == dtype
    bound = 1e-5 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(got.double(), exact, atol=bound, rtol=bound)


def test_a_row_that_sees_nothing_is_zero() -> None:
    q, k, v = inputs(Sizes(q_len=7), drawing())
    at, documents = torch.arange(7), torch.zeros(7).long()
    alone = documents.index_fill(0, at[:2], 9)
    positions = Positions(Tokens(at, document=alone), Tokens(at, document=documents))
    far = t.DistanceTable(torch.full((1, 1), -1e4), 0, saturates=True)
    out = attend(q, k, v, far, positions=positions, backend="flex")
    expected = attend(q, k, v, far, positions=positions, backend="reference")
    assert (out[:, :, :2] == 0).all()
    torch.testing.assert_close(out, expected)


def test_threads_leave_the_settings_of_torch_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the second begins before the first is done, and ends after it."""
    from torch.nn.attention import flex_attention as module

    if not hasattr(module, switch := "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"):
        pytest.skip("this torch has no such setting")
    real, entered, left = module.flex_attention, threading.Event(), threading.Event()

    def slow(*given: Any, **settings: Any) -> Any:
        if threading.current_thread() is second:
            entered.set()
            left.wait(10)
        else:
            second.start()
            entered.wait(0.2)
        return real(*given, **settings)

    monkeypatch.setattr(module, "flex_attention", slow)
    q = torch.randn(1, 1, 4, 8)
    second = threading.Thread(target=lambda: attend(q, q, q, backend="flex"))
    attend(q, q, q, backend="flex")
    left.set()
    second.join()
    assert entered.is_set()
    assert not getattr(module, switch)


def test_it_says_that_it_cannot_train_on_cpu() -> None:
    q, k, v = inputs(SIZES, drawing())
    learned = pe.T5Bias(6)
    with pytest.raises(UnsupportedError, match=r"flex.*no backward on CPU.*no_grad"):
        attend(q, k, v, learned, causal=True, backend="flex")
    with pytest.raises(UnsupportedError, match="no backward on CPU"):
        attend(q.requires_grad_(), k, v, causal=True, backend="flex")
    with torch.no_grad():
        out = attend(q, k, v, learned, causal=True, backend="flex")
        expected = attend(q, k, v, learned, causal=True, backend="reference")
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("name", sorted(name for name in TURNS | ADDITIONS if not able(name)))
def test_it_refuses_what_is_no_function_of_score_and_place(name: str) -> None:
    draw = drawing()
    q, k, v = inputs(SIZES, draw)
    with pytest.raises(UnsupportedError, match="cannot compute this"):
        attend(q, k, v, (TURNS | ADDITIONS)[name](SIZES, draw), causal=True, backend="flex")


def test_it_refuses_dropout_and_a_bias_inside_a_varying_scale() -> None:
    draw = drawing()
    q, k, v = inputs(SIZES, draw)
    with pytest.raises(UnsupportedError, match="dropout"):
        attend(q, k, v, causal=True, dropout=0.1, backend="flex")
    parts = [
        ADDITIONS["whole table inside"](SIZES, draw),
        ADDITIONS["scale per query"](SIZES, draw),
    ]
    with pytest.raises(UnsupportedError, match="inside a scale"):
        attend(q, k, v, parts, causal=True, backend="flex")


@pytest.mark.newer
@pytest.mark.graph
def test_compiled_it_gives_the_same() -> None:
    q, k, v = inputs(Sizes(q_len=7, dim=16, value_dim=16), drawing())
    table = t.DistanceTable(torch.randn(6, 4, dtype=torch.float64), 2, saturates=True)

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attend(q, k, v, table, causal=True, backend="flex")

    with torch.no_grad():
        got = torch.compile(run, fullgraph=True, backend="aot_eager")(q, k, v)
    torch.testing.assert_close(got, run(q, k, v))
