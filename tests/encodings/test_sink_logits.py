"""SinkLogits: a row of weights that adds up to less than 1, in every way of attending."""

import math

import pytest
import torch

import posenc as pe
from posenc import terms as t
from posenc.errors import SettingError


def test_what_keys_lose_the_sink_has() -> None:
    q, v = torch.zeros(1, 2, 1, 4), torch.ones(1, 2, 3, 4)
    # Three keys of score 0 beside a sink of log 3, and beside one of 0.
    out = pe.attend(q, v * 0, v, pe.SinkLogits(2, value=math.log(3)))
    torch.testing.assert_close(out, torch.full_like(out, 3 / 6))
    out = pe.attend(q, v * 0, v, pe.SinkLogits(2, learned=False))
    torch.testing.assert_close(out, torch.full_like(out, 3 / 4))
    # A query that agrees with a key far more than with the sink gives it nothing.
    out = pe.attend(q + 10, v * 10, v, pe.SinkLogits(2))
    torch.testing.assert_close(out, torch.ones_like(out))


@pytest.mark.parametrize("backend", ["reference", "blocked", "native", "auto"])
def test_several_are_one_and_a_row_that_sees_nothing_is_zero(backend: str) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 9, 8, dtype=torch.float64).unbind()
    one, two = torch.randn(2, 2, dtype=torch.float64).requires_grad_().unbind()
    both = t.SinkLogit((one.exp() + two.exp()).log())
    expected = pe.attend(q, k, v, both, causal=True, backend="reference")
    parts = [t.SinkLogit(one), t.SinkLogit(two)]
    actual = pe.attend(q, k, v, parts, causal=True, backend=backend)
    torch.testing.assert_close(actual, expected)
    # Nine tokens of padding, one after another.
    positions = pe.Positions.build(attention_mask=torch.zeros(1, 9), causal=True)
    sink = torch.randn(2, dtype=torch.float64, requires_grad=True)
    out, lse = pe.attend(
        q, k, v, t.SinkLogit(sink), positions=positions, backend=backend, return_lse=True
    )
    assert torch.equal(out, torch.zeros_like(out))
    assert torch.autograd.grad(out.sum(), sink, retain_graph=True)[0].tolist() == [0, 0]
    torch.testing.assert_close(lse, sink[:, None].expand(1, 2, 9))
    torch.testing.assert_close(torch.autograd.grad(lse.sum(), sink)[0], torch.full_like(sink, 9))


@pytest.mark.parametrize("policy", ["rotated", "raw"])
@pytest.mark.parametrize("learned", [True, False])
def test_decoding_in_a_window_is_the_full_forward(policy: str, learned: bool) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 90, 16).unbind()
    k, v = k[:, ::2], v[:, ::2]
    sink = pe.SinkLogits(4, value=1.5, learned=learned)
    yarn = pe.YaRN(32.0, 64, truncate=False)
    parts = [pe.Rotary(16, scaling=yarn), pe.SlidingWindow(8), sink]
    full = pe.attend(q, k, v, parts, causal=True, backend="reference")
    caches = [pe.Cache(policy), pe.Cache(policy), pe.RollingCache(8, policy=policy)]
    caches.append(pe.StaticCache(96)) if policy == "rotated" else None
    # The second by terms that were lowered for the step.
    for cache in caches:
        made = [
            pe.attend(q[:, :, n : n + m], k[:, :, n : n + m], v[:, :, n : n + m], parts,
                      causal=True, cache=cache)
            for n, m in [(0, 20), *((n, 1) for n in range(20, 90))]
        ]  # fmt: skip
        torch.testing.assert_close(torch.cat(made, dim=2), full, rtol=1e-5, atol=1e-5)


def test_a_step_reads_a_sink_that_was_trained_meanwhile() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 8, 8).unbind()
    sink, cache = pe.SinkLogits(2), pe.Cache()
    with torch.no_grad():
        for n in range(8):
            now = slice(n, n + 1)
            if n == 6:
                sink.get_parameter("logit").fill_(3.0)
            out = pe.attend(
                q[:, :, now], k[:, :, now], v[:, :, now], sink, causal=True, cache=cache
            )
        torch.testing.assert_close(out, pe.attend(q, k, v, sink, causal=True)[:, :, -1:])


def test_one_query_of_lowered_terms_gives_its_gradient() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 1, 8), torch.randn(1, 2, 9, 8), torch.randn(1, 2, 9, 8)
    sink = torch.randn(4, requires_grad=True)
    found = []
    for backend in ("auto", "reference"):
        lowered = pe.lower([t.SinkLogit(sink), pe.ALiBi(4)], pe.Positions.build(1, 9, causal=True))
        with torch.no_grad():
            # Terms remember which way the layer before took.
            pe.attend(q, k, v, lowered, backend=backend)
        out = pe.attend(q, k, v, lowered, backend=backend)
        found.append((out, *torch.autograd.grad(out.sin().sum(), sink)))
    for actual, expected in zip(*found, strict=True):
        torch.testing.assert_close(actual, expected)


def test_wrong_settings_are_refused() -> None:
    for settings in ({"heads": 0}, {"heads": 2, "value": math.inf}):
        with pytest.raises(SettingError, match="SinkLogits"):
            pe.SinkLogits(**settings)
    q = torch.zeros(1, 3, 2, 4)
    with pytest.raises(pe.ShapeError, match=r"SinkLogit\.values was made for 2 heads"):
        pe.attend(q, q, q, pe.SinkLogits(2))
