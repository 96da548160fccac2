"""Where two results differ by more than rounding allows, and what it allows."""

from typing import NamedTuple

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import (
    NAMES,
    Computation,
    Kind,
    Results,
    in_dimensions,
    in_pairs,
)
from posenc.analysis.ranges import ranges

# Each of two implementations may round cos, sin, both products and their sum once.
OPERATIONS = 4.0
# Sums over dimensions and keys: low dtypes are summed in float32 and rounded a few times, wider
# ones lose a little with every term. Measured: at most 1.1 and 6.9 at d = 16 to 128.
SUMS = {torch.bfloat16: 3.0, torch.float16: 3.0, torch.float32: 16.0, torch.float64: 16.0}


class Place(NamedTuple):
    """One element: of which tensor, and where in it; `dim` is the key where it is of scores."""

    tensor: str
    batch: int
    head: int
    token: int
    dim: int

    def shown(self, kind: Kind) -> str:
        column = "key" if kind == "scores" else "dimension"
        head = "" if kind == "embedded" else f", head {self.head}"
        row = f"(batch row {self.batch}{head})"
        return f"token {self.token}, {column} {self.dim} of {self.tensor} {row}"

    def of(self, results: Results, kind: Kind) -> float:
        """The number at this place."""
        head = () if kind == "embedded" else (self.head,)
        result = results[NAMES[kind].index(self.tensor)]
        return result[self.batch, *head, self.token, self.dim].item()


class Difference:
    """Two results of a kind, compared element by element with what is allowed."""

    def __init__(self, ours: Results, theirs: Results, allowed: Results, kind: Kind) -> None:
        self.ours, self.theirs, self.allowed, self.kind = ours, theirs, allowed, kind
        self.apart = tuple(
            (one.double() - two.double()).abs().masked_fill((one == two) | (most == torch.inf), 0.0)
            for one, two, most in zip(ours, theirs, allowed, strict=True)
        )
        self.beyond = {
            name: apart / most.clamp(min=1e-300) > 1
            for name, apart, most in zip(NAMES[kind], self.apart, allowed, strict=False)
        }

    def first(self) -> Place | None:
        """The first element beyond what is allowed: by token, then dimension, batch and head."""
        places = []
        for name, beyond in self.beyond.items():
            heads = beyond if beyond.ndim == 4 else beyond[:, None]
            tokens = heads.any(-1).flatten(0, 1).any(0).nonzero()
            if len(tokens):
                token = int(tokens[0])
                dim, batch, head = min(heads[:, :, token].permute(2, 0, 1).nonzero().tolist())
                places.append(Place(name, batch, head, token, dim))
        return min(places, key=lambda place: place.token, default=None)

    def largest(self) -> tuple[float, float]:
        """The largest difference, and what is allowed there."""
        largest = []
        for apart, most in zip(self.apart, self.allowed, strict=True):
            index = apart.argmax()
            there = most.expand_as(apart).flatten()[index]
            largest.append((apart.flatten()[index].item(), there.item()))
        return max(largest)

    def pattern(self) -> str:
        """Which tensors, rows, heads and dimensions differ, where it is not all of them."""
        differing = {name: beyond for name, beyond in self.beyond.items() if beyond.any()}
        sentences = []
        if len(differing) < len(self.beyond):
            sentences.append(f"Only {next(iter(differing))} differs.")
        axes = {"batch rows": 0, "heads": 1, "keys" if self.kind == "scores" else "dimensions": -1}
        if self.kind == "embedded":
            del axes["heads"]
        for name, beyond in differing.items():
            for what, axis in axes.items():
                where = beyond.transpose(0, axis).flatten(1).any(-1).nonzero().flatten().tolist()
                if len(where) < (count := beyond.shape[axis]):
                    runs = ranges(where)
                    some = ", ".join(runs[:6]) + (" and others" if len(runs) > 6 else "")
                    sentences.append(f"Of the {count} {what} of {name}, {some} differ.")
        return " ".join(sentences)


def rounding_of(
    ours: Results, kind: Kind, dtype: torch.dtype, known: Computation | None = None
) -> Results:
    """The largest difference that rounding to dtype allows, element by element.

    Angles may be rounded to float32 as well (float64 for float64): an error that grows with them.
    Raw tensors of the known computation of ours give the size of what was summed; without them
    results tell it roughly. For padding, which means nothing, anything is allowed.
    """
    allowed = _rounding(ours, kind, dtype, known)
    valid = None if known is None else known.positions.keys.valid
    if valid is None or kind == "embedded":
        return allowed
    sides = (valid[:, valid.shape[1] - allowed[0].shape[-2] :], valid)
    return tuple(
        most.masked_fill(~side[:, None, :, None], torch.inf)
        for most, side in zip(allowed, sides, strict=False)
    )


def _rounding(ours: Results, kind: Kind, dtype: torch.dtype, known: Computation | None) -> Results:
    eps = torch.finfo(dtype).eps
    angle_eps = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    if kind == "turned":
        return _of_rotated(ours, eps, angle_eps, known)
    result = ours[0].double()
    size = result.masked_fill(result.isinf(), 0.0).abs()
    if kind == "embedded":
        positions = None if known is None else known.positions.queries.position
        reach = 0 if positions is None else positions.double().abs().amax().item()
        return (OPERATIONS * (eps * (size + 1) + angle_eps * reach),)
    summed = size.amax(-1 if kind == "scores" else -2, keepdim=True)
    if known is not None:
        angles = () if (rotate := known.rotate) is None else (rotate.q_angle, rotate.k_angle)
        largest = [angle.abs().max().item() for angle in angles if angle is not None]
        eps += angle_eps * max(largest, default=0.0)
        summed = _of_products(known)
        if kind == "output":
            # A weight is wrong by as much, relatively, as its score is wrong absolutely.
            values = known.v.double().square().mean().sqrt()
            return (SUMS[dtype] * eps * values * (1 + summed) + 0 * size,)
    return (SUMS[dtype] * eps * (summed + size),)


def _of_rotated(ours: Results, eps: float, angle_eps: float, known: Computation | None) -> Results:
    rotate = None if known is None else known.rotate
    allowed = []
    for index, x in enumerate(ours):
        x = x.double()
        size, angle = x.abs(), torch.zeros((), dtype=torch.float64, device=x.device)
        if rotate is not None:
            angles = rotate.q_angle if index == 0 or rotate.k_angle is None else rotate.k_angle
            width = x.shape[-1]
            size = size.maximum(in_dimensions(in_pairs(x, rotate).abs(), rotate, width))
            angle = in_dimensions(angles.abs(), rotate, width)
        elif known is None:
            # Whoever an element was rotated with is not known, nor by how much.
            size = size + x.square().mean(-1, keepdim=True).sqrt()
            angle = torch.arange(x.shape[-2], device=x.device).double()[:, None]
        allowed.append(OPERATIONS * size * (eps + angle_eps * angle))
    return tuple(allowed)


def _of_products(known: Computation) -> Tensor:
    """How large scale * q . k is for vectors of these lengths in no special direction."""
    q_norm = known.q.double().norm(dim=-1)
    k_norm = known.k.double().norm(dim=-1).amax((1, 2), keepdim=True)
    return (known.scale * 2 / known.q.shape[-1] ** 0.5 * q_norm * k_norm)[..., None]
