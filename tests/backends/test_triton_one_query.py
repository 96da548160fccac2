"""One query against a long cache in Triton: splits of the keys, sinks, windows, offsets."""

import pytest
import torch

import posenc as pe
from posenc import attend
from posenc import terms as t
from tests.support.triton_ready import MARKS, READY, close, draw

pytestmark = [*MARKS, pytest.mark.usefixtures("small_tiles")]

if READY:
    from posenc.triton import decoding


def test_one_query_counts_a_sink_once_for_all_splits_of_its_keys() -> None:
    q, k, v = (draw(1, heads, count, 16) for heads, count in ((4, 1), (2, 700), (2, 700)))
    encoding = [t.SinkLogit(draw(4) + 5), t.Slope(draw(4).abs() / 99)]
    with torch.no_grad():
        out = attend(q, k, v, encoding, causal=True, backend="triton")
        close(out, attend(q, k, v, encoding, causal=True, backend="reference"))


@pytest.mark.parametrize("splits", [1, 3])
def test_one_query_against_a_cache(splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads that share keys are rows of one tile, and splits of the keys are merged."""
    monkeypatch.setattr(decoding, "_SHORTEST", 200 // splits)
    q, k, v = draw(2, 6, 1, 10), draw(2, 2, 200, 10), draw(2, 2, 200, 6)
    for parts in (
        [t.Slope(draw(6).abs()), t.Mask(t.Window(90)), t.Mask(t.Sink(1))],
        [t.DistanceTable(draw(6, 9), 8, saturates=True), t.Mask(t.Window(100))],
        [t.DistanceTable(draw(1, 9), 4, saturates=True), pe.Rotary(10)],
        [t.Offset(draw(2, 6, 1), draw(2, 6, 200)), t.Mask(t.Window(150))],
        # Its keys lie as a cache keeps them, of one row for the batch.
        [t.Offset(draw(1, 6, 1), draw(1, 200, 6).transpose(1, 2)), t.Slope(draw(6).abs())],
    ):
        got = attend(q, k, v, parts, causal=True, backend="triton")
        close(got, attend(q, k, v, parts, causal=True, backend="reference"))


def test_one_query_keeps_differences_of_large_offsets_and_their_level() -> None:
    gates = 1e5 + draw(1, 2, 50)
    term = t.Offset(-gates[..., -1:], gates)
    q, k, v = (draw(1, 2, n, 16, dtype=torch.float32) for n in (1, 50, 50))
    for name in ("triton", "reference"):
        with torch.no_grad():
            call = {"causal": True, "backend": name, "return_lse": True}
            out, lse = attend(q, k, v, term, **call)
        if name == "triton":
            first = out, lse
    close(first[0], out, torch.float32)
    close(first[1], lse, torch.float32)


@pytest.mark.parametrize("keys", [1, 63, 330])
def test_one_query_and_splits_of_a_window_behind_sinks(
    keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first split meets the sinks, of which a window may hold some."""
    monkeypatch.setattr(decoding, "_SHORTEST", 60)
    q, k, v = draw(1, 4, 1, 16), draw(1, 2, keys, 16), draw(1, 2, keys, 8)
    for width, sinks in ((keys - 1, 70), (90, 200)):
        rules = [t.Mask(t.Window(max(width, 1))), t.Mask(t.Sink(sinks))]
        terms = [*rules, t.Slope(draw(4).abs() / 99), t.SinkLogit(draw(4))]
        results = []
        for name in ("triton", "reference"):
            with torch.no_grad():
                call = {"causal": True, "backend": name, "return_lse": True}
                results.append(attend(q, k, v, terms, **call))
        for actual, expected in zip(*results, strict=True):
            close(actual, expected)
