"""What settings alone say is kept between calls, and is never that of other settings."""

import copy
from typing import Any

import pytest
import torch

import posenc as pe

MAKE = {
    "rotary": lambda: pe.Rotary(8),
    "yarn": lambda: pe.Rotary(8, scaling=pe.YaRN(4.0, 64)),
    "mrope": lambda: pe.MRoPE(8, (2, 1, 1)),
    "rerope": lambda: pe.ReRoPE(8, window=4),
    "xpos": lambda: pe.XPos(8),
    "t5": lambda: pe.T5Bias(2, buckets=8, max_distance=20),
    "sandwich": lambda: pe.Sandwich(2, dim=8),
}


def asked(encoding: pe.Encoding, q: torch.Tensor) -> torch.Tensor:
    return pe.scores(q, q, encoding, causal=True)


@pytest.mark.parametrize("name", MAKE)
def test_a_second_call_computes_what_the_first_did(name: str) -> None:
    """Also a longer and a shorter one, a copy's, and one after inference mode."""
    encoding, draw = MAKE[name](), torch.Generator().manual_seed(0)
    inputs = [torch.randn(1, 2, t, 8, generator=draw) for t in (5, 70, 40, 129, 5)]
    with torch.inference_mode():
        asked(encoding, inputs[0])
    for q in inputs:
        anew = MAKE[name]()
        anew.load_state_dict(encoding.state_dict())
        expected = asked(anew, q)
        for one in (encoding, copy.deepcopy(encoding)):
            assert torch.equal(asked(one, q), expected)
            with torch.no_grad():
                assert torch.equal(asked(one, q), expected)


@pytest.mark.parametrize("name", ["rotary", "yarn", "xpos", "t5", "sandwich"])
def test_settings_that_change_are_followed(name: str) -> None:
    encoding, other = MAKE[name](), MAKE[name]()
    q = torch.randn(1, 2, 40, 8, generator=torch.Generator().manual_seed(1))
    before = asked(encoding, q)
    for one in (encoding, other):
        if name == "t5":
            one.max_distance = 30
        else:
            one.base = 100.0
    other.load_state_dict(encoding.state_dict())
    assert not torch.equal(asked(encoding, q), before)
    assert torch.equal(asked(encoding, q), asked(other, q))


def test_kept_settings_enter_no_checkpoint_and_no_repr() -> None:
    for make in MAKE.values():
        used, fresh = make(), make()
        asked(used, torch.randn(1, 2, 6, 8))
        assert set(vars(used)) != set(vars(fresh))
        assert used.state_dict().keys() == fresh.state_dict().keys()
        assert repr(used) == repr(fresh)


class Halved(pe.Rotary):
    """Frequencies that learn, and are halved when asked for."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.factor = torch.nn.Parameter(torch.tensor(0.5))

    def frequencies(self, length=None, device=None) -> torch.Tensor:
        return super().frequencies(length, device) * self.factor


class Shifted(pe.T5Bias):
    extra = 0

    def bucket(self, distance: torch.Tensor) -> torch.Tensor:
        return (super().bucket(distance) + self.extra).clamp_(max=self.buckets - 1)


class Doubled(pe.Sandwich):
    factor = 1.0

    def biases(self, distance: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return super().biases(distance, dtype) * self.factor


@torch.no_grad()
def test_of_own_classes_nothing_is_kept() -> None:
    """They may read what changes: parameters, attributes of their own."""
    q = torch.randn(1, 2, 40, 8)
    rotary, t5, sandwich = Halved(8), Shifted(2), Doubled(2, dim=8)
    before = [asked(one, q) for one in (rotary, t5, sandwich)]
    rotary.factor.fill_(1.0)
    t5.extra, sandwich.factor = 3, 2.0
    after = [asked(one, q) for one in (rotary, t5, sandwich)]
    assert not any(torch.equal(x, y) for x, y in zip(before, after, strict=True))
    assert torch.equal(after[0], asked(pe.Rotary(8), q))


class Scheduled(pe.YaRN):
    """Stretched by a factor that training raises."""

    stretch = 1.0

    def frequencies(self, theta: torch.Tensor, base: float, length: Any) -> torch.Tensor:
        return theta / self.stretch


@pytest.mark.parametrize("wrap", [lambda x: x, pe.Resonance])
def test_of_an_own_scaling_nothing_is_kept(wrap: Any) -> None:
    q = torch.randn(1, 2, 40, 8)
    rotary = pe.Rotary(8, scaling=wrap(Scheduled(4.0, 64)))
    before = asked(rotary, q)
    Scheduled.stretch = 4.0
    try:
        after, fresh = asked(rotary, q), asked(pe.Rotary(8, scaling=wrap(Scheduled(4.0, 64))), q)
    finally:
        Scheduled.stretch = 1.0
    assert torch.equal(after, fresh)
    assert not torch.equal(before, after)


class Named(pe.XPos):
    """With a parameter under a name that posenc could have taken."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self._theta = torch.nn.Parameter(torch.ones(3))


def test_what_is_kept_hides_nothing_and_follows_what_is_written() -> None:
    q, named = torch.randn(1, 2, 9, 8), Named(8)
    expected = asked(named, q)
    assert isinstance(named._theta, torch.nn.Parameter)
    named.theta(q.device).mul_(2)
    assert torch.equal(asked(named, q), expected)
    rotary = pe.Rotary(8)
    asked(rotary, q)
    rotary.frequencies = lambda length=None, device=None: torch.zeros(4, dtype=torch.float64)
    assert torch.allclose(asked(rotary, q), pe.scores(q, q, None, causal=True), atol=1e-6)
