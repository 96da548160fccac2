"""Rotary angles of what was read, in Python's numbers: no torch."""

import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from posenc.frequencies import FREQUENCIES, GAINS, no_gain
from posenc.models.spec import EncodingSpec, LayerSpec, ModelSpec, ScalingSpec

# An angle that is off by this much has lost a sixth of its cosine: the pair is of no more use.
LARGE = 0.5


@dataclass(frozen=True)
class Effect:
    """What sets two rotations apart at a position, over all layers.

    angle is the largest error in radians, pairs of `of` pairs are off by more than LARGE, and gain
    is by how much cos and sin of the second are larger, 1 where they are alike. layers are those
    that differ; masks tells whether their windows do.
    """

    position: int
    angle: float
    pairs: int
    of: int
    gain: float
    layers: int
    masks: bool = False

    @property
    def grave(self) -> bool:
        """Whether outputs differ so that a reader would see it."""
        return self.angle > LARGE or abs(self.gain - 1) > 0.01 or self.masks


def frequencies(spec: EncodingSpec, length: int) -> list[float]:
    """Radians per token of each dimension of a head, 0 for those that rest.

    length is how far the input reaches; only some scalings ask.
    """
    settings = spec.settings
    dim = settings["dim"]
    turned, start = settings.get("rotary_dim", dim), settings.get("start", 0)
    scaling = settings.get("scaling", ScalingSpec("Scaling", {}))
    formula = FREQUENCIES[scaling.name]
    pairs = [
        formula(i, settings["base"], turned, length, **scaling.settings) for i in range(turned // 2)
    ]
    waves = pairs * 2 if settings.get("layout", "half") == "half" else _twice(pairs)
    return [0.0] * start + waves + [0.0] * (dim - start - turned)


def _twice(pairs: list[float]) -> list[float]:
    return [x for x in pairs for _ in range(2)]


def gain(spec: EncodingSpec) -> float:
    """What multiplies cos and sin."""
    scaling = spec.settings.get("scaling")
    return GAINS.get(scaling.name, no_gain)(**scaling.settings) if scaling else 1.0


def compare(
    expected: ModelSpec,
    other: ModelSpec,
    position: int,
    change: Callable[[list[float]], list[float]] = list,
) -> Effect | None:
    """What `other` does otherwise at this position, or None; change is made to its frequencies."""
    length = position + 1
    pairs_of: dict[int, tuple[float, int, int]] = {}
    angle, pairs, of, ratio, layers, masks = 0.0, 0, 0, 1.0, 0, False
    for one, two in _layers(expected, other):
        key = hash((id(one), id(two)))
        if key not in pairs_of:
            pairs_of[key] = _off(one, two, position, length, change)
        largest, count, total = pairs_of[key]
        gains = _gain(two) / _gain(one)
        seen = (one.window, one.chunk) != (two.window, two.chunk)
        differs = largest > 0 or abs(gains - 1) > 1e-9 or seen
        layers += differs
        masks |= seen
        if largest >= angle:
            angle, pairs, of = largest, count, total
        if abs(gains - 1) > abs(ratio - 1):
            ratio = gains
    return Effect(position, angle, pairs, of, ratio, layers, masks) if layers else None


def _layers(one: ModelSpec, two: ModelSpec) -> Iterable[tuple[LayerSpec, LayerSpec]]:
    for a, b in zip(one.layers, two.layers, strict=True):
        if a is not None and b is not None:
            yield a, b


def _gain(layer: LayerSpec) -> float:
    return gain(layer.rotary) if layer.rotary else 1.0


def _off(
    one: LayerSpec,
    two: LayerSpec,
    position: int,
    length: int,
    change: Callable[[list[float]], list[float]],
) -> tuple[float, int, int]:
    zeros = [0.0] * one.head_dim
    expected = frequencies(one.rotary, length) if one.rotary else zeros
    other = change(frequencies(two.rotary, length)) if two.rotary else zeros
    errors = [abs(x - y) * position for x, y in zip(expected, other, strict=True)]
    turned = sum(1 for x, y in zip(expected, other, strict=True) if x or y)
    # Two dimensions make a pair.
    return max(errors), sum(x > LARGE for x in errors) // 2, turned // 2


def bfloat16(value: float) -> float:
    """The nearest bfloat16, ties to even."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits += 0x7FFF + (bits >> 16 & 1)
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]


def turns(spec: EncodingSpec, length: int) -> list[float]:
    """How often each pair turns within this length."""
    waves = frequencies(spec, length)
    return [wave * length / (2 * math.pi) for wave in waves if wave]
