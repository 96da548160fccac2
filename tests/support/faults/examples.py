"""Encodings to plant faults in."""

import torch
from torch import Tensor

import posenc as pe
from posenc.encoding import Encoding
from posenc.terms import Slope


def rope() -> Encoding:
    return pe.Rotary(16)


def second_rope() -> Encoding:
    """Made after another of the same size has run."""
    pe.Rotary(16, base=500.0).frequencies()
    return pe.Rotary(16)


def dynamic() -> Encoding:
    return pe.Rotary(16, scaling=pe.DynamicNTK(2.0, original_length=4))


def alibi() -> Encoding:
    return pe.ALiBi(4)


def t5() -> Encoding:
    return pe.T5Bias(4, buckets=8, max_distance=20)


def shaw() -> Encoding:
    return pe.Shaw(16, clip=3)


def sinusoid() -> Encoding:
    return pe.Sinusoidal(16)


def forget_gate() -> Encoding:
    return pe.ForgetGate(16, 4)


def cope() -> Encoding:
    return pe.CoPE(16, max_position=5)


class SlopedCoPE(pe.CoPE):
    """CoPE beside a bias, which must not open or close its gates."""

    def lower(self, positions, context=None, *, dtype=torch.float32):
        slope = Slope(torch.full((4,), 0.5, dtype=dtype))
        return slope, *super().lower(positions, context, dtype=dtype)

    def reference_scores(self, q, k, at):
        return super().reference_scores(q, k, at) - 0.5 * at.distance().abs()


def pope() -> Encoding:
    return pe.PoPE(6, heads=4, base=100.0, init="uniform")


class Drifting(pe.Mamba3Rotary):
    """A token without input turns as well, which of the catalogue's none does."""

    def payload(self, x: Tensor) -> Tensor:
        return super().payload(x) + 0.3

    def reference_steps(self, x: Tensor) -> Tensor:
        return super().reference_steps(x) + 0.3


def drifting() -> Encoding:
    return Drifting(18, 3, 6, rotary_dim=6)
