"""Encodings of strangers, and exact comparison, for what is measured."""

import torch
from torch import Tensor

import posenc as pe
from posenc import Encoding
from posenc.mask_rules import Window
from posenc.terms import Mask, Term


def exact(actual: Tensor, expected: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol, check_dtype=False)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


class Bumps(Encoding):
    """A stranger's: it only embeds, and derives from nothing else of posenc."""

    name = "bumps"
    family = "absolute"

    def embed(self, x: Tensor, positions: object, *, layer: int = 0) -> Tensor:
        assert isinstance(positions, pe.Positions)
        return x + (positions.queries.position.double() % 3).view(1, -1, 1).to(x.dtype)


class Windowed(pe.Rotary):
    """A stranger's: a rotation and a window in one."""

    def lower(self, *given: object, **named: object) -> tuple[Term, ...]:
        return (*super().lower(*given, **named), Mask(Window(5)))
