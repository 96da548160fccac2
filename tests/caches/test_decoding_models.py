"""Whole models decode through one cache for each layer."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import posenc as pe
from posenc import (
    Cache,
    CacheError,
    Positions,
)
from tests.support.decoding import DIM, HEADS, LENGTH, POLICIES, Gated, Stretched, model, spans

MODELS: dict[str, Callable[[], Any]] = {
    "sinusoidal": lambda: pe.Sinusoidal(48),
    "learned, beside": lambda: pe.Learned(4, max_length=LENGTH, merge="concat"),
    "rotary and window": lambda: [pe.Rotary(DIM), pe.SlidingWindow(4)],
    "learned and t5": lambda: [pe.Learned(48, max_length=LENGTH), pe.T5Bias(HEADS, 4, 4)],
    "shaw": lambda: pe.Shaw(DIM, clip=2),
    "one per layer": lambda: lambda layer: pe.Rotary(DIM, base=10.0 ** (layer + 1)),
    "gate": lambda: Gated(48, HEADS),
    "gate and rotary": lambda: [pe.Rotary(DIM), Gated(48, HEADS)],
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", MODELS)
def test_a_whole_model_decodes(name: str, policy: str) -> None:
    transformer, tokens = model(MODELS[name]()), torch.arange(2 * LENGTH).view(2, -1) * 7 % 11
    mask = torch.ones(2, LENGTH, dtype=torch.bool)
    mask[1, :2] = False
    for real in (None, mask):
        whole = None
        if real is not None:
            whole = Positions.build(attention_mask=real, causal=True)
        expected = transformer(tokens, whole)
        for chunks in ((4, 1, 1, 3), (1,) * LENGTH):
            caches = [Cache(policy) for _ in range(3)]
            steps = []
            for span in spans(chunks):
                positions = None
                if real is not None:
                    positions = Positions.build(
                        span.stop - span.start,
                        attention_mask=real[:, : span.stop],
                        causal=True,
                        k_len=span.stop,
                    )
                steps.append(transformer(tokens[:, span], positions, caches))
            got = torch.cat(steps, dim=1)
            kept = slice(None) if real is None else real
            torch.testing.assert_close(got[kept], expected[kept])


def test_a_model_with_growing_angles_needs_the_length() -> None:
    transformer, tokens = model(Stretched()), torch.arange(LENGTH)[None] % 11
    with pytest.raises(CacheError, match="depend on the length"):
        transformer(tokens, caches=[Cache() for _ in range(3)])
    caches = [Cache(length=LENGTH) for _ in range(3)]
    steps = [transformer(tokens[:, span], caches=caches) for span in spans((4, 1, 1, 3))]
    torch.testing.assert_close(torch.cat(steps, dim=1), transformer(tokens))


def test_a_model_wants_one_cache_per_layer() -> None:
    with pytest.raises(pe.ShapeError, match=r"3 layers, but 2 caches.*one Cache per layer"):
        model(pe.NoPE())(torch.zeros(1, 2).long(), caches=[Cache(), Cache()])
