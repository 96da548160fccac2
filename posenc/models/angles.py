"""Rotary angles of what was read, in Python's numbers: no torch."""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import zip_longest

from posenc.errors import UnsupportedError
from posenc.frequencies import FREQUENCIES, GAINS, no_gain
from posenc.models.spec import EncodingSpec, LayerSpec, ModelSpec, ScalingSpec

# An angle that is off by this much has lost a sixth of its cosine: the pair is of no more use.
LARGE = 0.5


@dataclass(frozen=True)
class Effect:
    """What sets two rotations apart for tokens this far from each other, over all layers.

    angle is the largest error in radians, pairs of `of` pairs are off by more than LARGE, and gain
    is by how much cos and sin of the second are larger, 1 where they are alike. Within a window
    or a chunk no two tokens are farther from each other than it reaches. layers are those that
    differ; others tells whether their windows, chunks or temperatures do.
    """

    distance: int
    angle: float
    pairs: int
    of: int
    gain: float
    layers: int
    others: bool = False

    @property
    def grave(self) -> bool:
        """Whether outputs differ so that a reader would see it."""
        return self.angle > LARGE or abs(self.gain - 1) > 0.01 or self.others


def frequencies(spec: EncodingSpec, length: int) -> list[float]:
    """Radians per token of each dimension of a head, 0 for those that rest.

    length is how far the input reaches; only some scalings ask. Raises UnsupportedError for a
    scaling that posenc has no formula of.
    """
    settings = spec.settings
    dim = settings["dim"]
    turned, start = settings.get("rotary_dim", dim), settings.get("start", 0)
    scaling = settings.get("scaling", ScalingSpec("Scaling", {}))
    if scaling.name not in FREQUENCIES:
        raise UnsupportedError(f"posenc has no scaling {scaling.name}, and so no frequencies of it")
    formula = FREQUENCIES[scaling.name]
    pairs = [
        formula(i, settings["base"], turned, length, **scaling.settings) for i in range(turned // 2)
    ]
    waves = pairs * 2 if settings.get("layout", "half") == "half" else _twice(pairs)
    return [0.0] * start + waves + [0.0] * (dim - start - turned)


def turned_distance(spec: EncodingSpec, distance: int) -> int:
    """How far the first token of a text is turned from one this far behind it."""
    if spec.name != "dual_chunk":
        return distance
    return min(distance, spec.settings["chunk"] + spec.settings["local"] - 1)


def _twice(pairs: list[float]) -> list[float]:
    return [x for x in pairs for _ in range(2)]


def gain(spec: EncodingSpec) -> float:
    """What multiplies cos and sin."""
    scaling = spec.settings.get("scaling")
    return GAINS.get(scaling.name, no_gain)(**scaling.settings) if scaling else 1.0


def compare(
    expected: ModelSpec,
    other: ModelSpec,
    length: int,
    change: Callable[[list[float]], list[float]] = list,
) -> Effect | None:
    """What `other` does otherwise in inputs of this length; change is made to its frequencies."""
    pairs_of: dict[tuple[int, int], tuple[float, int, int]] = {}
    angle, pairs, of, ratio, layers, others = 0.0, 0, 0, 1.0, 0, False
    for one, two in _layers(expected, other):
        key = id(one), id(two)
        if key not in pairs_of:
            pairs_of[key] = _off(one, two, length, change)
        largest, count, total = pairs_of[key]
        gains = _gain(two) / _gain(one)
        beside = _beside(one) != _beside(two)
        layers += largest > 0 or abs(gains - 1) > 1e-9 or beside
        others |= beside
        if largest >= angle:
            angle, pairs, of = largest, count, total
        if abs(gains - 1) > abs(ratio - 1):
            ratio = gains
    return Effect(length - 1, angle, pairs, of, ratio, layers, others) if layers else None


def _layers(one: ModelSpec, two: ModelSpec) -> Iterable[tuple[LayerSpec, LayerSpec]]:
    for a, b in zip(one.layers, two.layers, strict=True):
        if a is not None and b is not None:
            yield a, b


def _beside(layer: LayerSpec) -> tuple[object, ...]:
    """What a layer has beside its rotation."""
    others = tuple(spec for spec in layer.encodings if spec is not layer.rotary)
    return layer.window, layer.chunk, others


def _gain(layer: LayerSpec) -> float:
    return gain(layer.rotary) if layer.rotary else 1.0


def _off(
    one: LayerSpec,
    two: LayerSpec,
    length: int,
    change: Callable[[list[float]], list[float]],
) -> tuple[float, int, int]:
    expected = frequencies(one.rotary, length) if one.rotary else []
    other = change(frequencies(two.rotary, length)) if two.rotary else []
    # What is not there does not turn.
    waves = list(zip_longest(expected, other, fillvalue=0.0))
    distance = min(length, one.window or length, one.chunk or length) - 1
    far, other_far = (turned_distance(x.rotary, distance) if x.rotary else 0 for x in (one, two))
    # Where both turn as far, a small difference of large angles is not to be rounded away.
    alike = far == other_far or not (one.rotary and two.rotary)
    errors = [
        abs(x - y) * max(far, other_far) if alike else abs(x * far - y * other_far)
        for x, y in waves
    ]
    turned = sum(1 for x, y in waves if x or y)
    # Two dimensions make a pair.
    return max(errors, default=0.0), sum(x > LARGE for x in errors) // 2, turned // 2


def bfloat16(value: float) -> float:
    """The nearest bfloat16, ties to even."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits += 0x7FFF + (bits >> 16 & 1)
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]
