"""What tests of linear attention share: forms, rotations, and how close results must be."""

import torch
from torch import Tensor

import posenc as pe
from posenc.lowering import Lowerable

FORMS = ("parallel", "chunked", "recurrent")
ROTARIES: dict[str, Lowerable] = {
    "none": None,
    "no position": pe.NoPE(),
    "half": pe.Rotary(10),
    "interleaved": pe.Rotary(10, base=500.0, layout="interleaved"),
    "partial": pe.Rotary(10, rotary_dim=6),
    "yarn, with a gain": pe.Rotary(10, scaling=pe.YaRN(4.0, 64, beta_fast=8.0)),
    "dynamic": pe.Rotary(10, scaling=pe.DynamicNTK(2.0, original_length=2)),
    "proportional": pe.Rotary(10, scaling=pe.Proportional(0.4)),
    "per head": pe.LearnedRotary(10, heads=6),
}


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
