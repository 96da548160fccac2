"""Rotary frequencies as the papers write them: Python's numbers, one pair at a time, no torch.

i counts the pairs of dim rotated dimensions from 0, and length is how far the input reaches, in
tokens. Frequencies are in radians per token. What scalings compute as tensors is checked against
these, and configurations are judged by them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Frequency = Callable[..., float]


def default(i: int, base: float, dim: int, length: float) -> float:
    """base**(-2i/dim), RoPE's own."""
    return base ** (-2 * i / dim)


def linear(i: int, base: float, dim: int, length: float, *, factor: float) -> float:
    """Position interpolation (arXiv:2306.15595, equation 4)."""
    return default(i, base, dim, length) / factor


def ntk(i: int, base: float, dim: int, length: float, *, factor: float) -> float:
    """A larger base (bloc97, as in arXiv:2309.00071, definition 1)."""
    return default(i, base, dim, length) * factor ** (-2 * i / (dim - 2))


def dynamic_ntk(
    i: int, base: float, dim: int, length: float, *, factor: float, original_length: int
) -> float:
    """NTK that grows with the input, beyond the original length (arXiv:2309.00071, section 3.3)."""
    growth = 1 + factor * max(length / original_length - 1, 0.0)
    return ntk(i, base, dim, length, factor=growth)


def yarn(
    i: int,
    base: float,
    dim: int,
    length: float,
    *,
    factor: float,
    original_length: int,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    ramp: str = "code",
    truncate: bool = True,
    **gains: float | None,
) -> float:
    """Fast pairs kept, slow ones interpolated (arXiv:2309.00071, definition 2; authors' code)."""
    theta = default(i, base, dim, length)
    if ramp == "paper":
        turns = original_length * theta / (2 * math.pi)
        share = (turns - beta_slow) / (beta_fast - beta_slow)
    else:
        reach = original_length / (2 * math.pi)
        first = max(dim / 2 * math.log(reach / beta_fast, base), 0)
        last = min(dim / 2 * math.log(reach / beta_slow, base), dim - 1)
        if truncate:
            first, last = math.floor(first), math.ceil(last)
        share = (last - i) / (last - first) if last > first else float(i <= first)
    share = min(max(share, 0.0), 1.0)
    return theta * (share + (1 - share) / factor)


def dynamic_yarn(
    i: int,
    base: float,
    dim: int,
    length: float,
    *,
    original_length: int,
    factor: float = 1.0,
    **ramp: Any,
) -> float:
    """YaRN by how much longer the input is (arXiv:2309.00071, section 3.4; authors' code)."""
    stretch = max(factor, length / original_length)
    return yarn(i, base, dim, length, factor=stretch, original_length=original_length, **ramp)


def llama3(
    i: int,
    base: float,
    dim: int,
    length: float,
    *,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_length: int,
) -> float:
    """A ramp by how often a pair turns within the original length (Meta's apply_scaling)."""
    theta = default(i, base, dim, length)
    wavelength = 2 * math.pi / theta
    if wavelength < original_length / high_freq_factor:
        return theta
    if wavelength > original_length / low_freq_factor:
        return theta / factor
    smooth = original_length / wavelength - low_freq_factor
    smooth = smooth / (high_freq_factor - low_freq_factor)
    return (1 - smooth) * theta / factor + smooth * theta


def long_rope(
    i: int,
    base: float,
    dim: int,
    length: float,
    *,
    short: Sequence[float],
    long: Sequence[float],
    original_length: int,
    **gains: float | None,
) -> float:
    """A divisor for each pair, one list up to the original length, one beyond (2402.13753)."""
    divisor = long[i] if length > original_length else short[i]
    return 1 / (divisor * base ** (2 * i / dim))


def proportional(i: int, base: float, dim: int, length: float, *, fraction: float) -> float:
    """Only the fastest pairs turn (arXiv:2410.06205, section 6)."""
    return default(i, base, dim, length) if i + 1 <= fraction * dim / 2 else 0.0


def no_gain(**settings: Any) -> float:
    """cos and sin as they are."""
    return 1.0


def magnitude(factor: float, strength: float = 1.0) -> float:
    """YaRN's m: 0.1 * strength * ln(factor) + 1, and 1 where nothing is stretched."""
    return 1.0 if factor <= 1 else 0.1 * strength * math.log(factor) + 1.0


def yarn_gain(
    *,
    factor: float,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    **others: Any,
) -> float:
    """What multiplies cos and sin: m(1), or m(mscale) / m(mscale_all_dim)."""
    if attention_factor is not None:
        return attention_factor
    if mscale is not None and mscale_all_dim is not None:
        return magnitude(factor, mscale) / magnitude(factor, mscale_all_dim)
    return magnitude(factor)


def long_rope_gain(
    *, factor: float, original_length: int, attention_factor: float | None = None, **others: Any
) -> float:
    """The root of 1 + ln(factor) / ln(original_length)."""
    if attention_factor is not None:
        return attention_factor
    return math.sqrt(1 + math.log(factor, original_length))


# By the names of posenc's scalings; the settings are theirs.
FREQUENCIES: Mapping[str, Frequency] = {
    "Scaling": default,
    "Linear": linear,
    "NTK": ntk,
    "DynamicNTK": dynamic_ntk,
    "YaRN": yarn,
    "DynamicYaRN": dynamic_yarn,
    "Llama3": llama3,
    "LongRoPE": long_rope,
    "Proportional": proportional,
}
GAINS: Mapping[str, Callable[..., float]] = {"YaRN": yarn_gain, "LongRoPE": long_rope_gain}
