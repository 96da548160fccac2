"""What a GGUF file says of the frequencies, in the words of rope_scaling."""

import math
from collections.abc import Sequence
from typing import Any

from posenc.errors import ConfigError
from posenc.frequencies import default, llama3, magnitude
from posenc.models.keys import Keys, Sourced
from posenc.models.read.gguf.architectures import Architecture
from posenc.models.read.gguf.header import GGUFHeader

FREQUENCIES = "rope_freqs.weight"
SHORT, LONG = "rope_factors_short.weight", "rope_factors_long.weight"
KINDS = ("none", "linear", "yarn", "longrope")
_TYPE, _FACTOR, _OLD_FACTOR = "rope.scaling.type", "rope.scaling.factor", "rope.scale_linear"
_ORIGINAL = "rope.scaling.original_context_length"
_GAIN, _STRENGTH = "rope.scaling.attn_factor", "rope.scaling.yarn_log_multiplier"
_FAST, _SLOW = "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"
# What llama.cpp does with these keys or without them.
_SAID_ANYWAY = {
    "rope.scaling.yarn_ext_factor": 1.0,
    "rope.scaling.yarn_attn_factor": 1.0,
    _FAST: 32.0,
    _SLOW: 1.0,
}

# Under the names of rope_scaling: each value with its key in the file.
Values = dict[str, Sourced[Any]]


def scaling_values(
    header: GGUFHeader, stated: Keys, architecture: Architecture, pairs: int
) -> Values:
    """What rope_scaling would say of this file, whose keys are `stated`.

    A table of divisors, one for each of the pairs, stands as "longrope", whatever made it.
    """
    kind = stated.word(_TYPE)
    if kind.value not in (None, *KINDS):
        raise stated.wrong(kind.key, kind.value, f"one of {', '.join(KINDS)}")
    factor = stated.maybe_number(_FACTOR, _OLD_FACTOR)
    # 0 says nothing, and "none" takes it back.
    factor = Sourced(factor.value or 1.0 if kind.value != "none" else 1.0, factor.key)
    gain = stated.maybe_number(_GAIN)
    gain = Sourced(1.0 if gain.value is None else gain.value, gain.key)
    short, long = _tables(header)
    if kind.value == "yarn" and factor.value > 1:
        if short is not None:
            raise ConfigError(
                f"{header.path} has {short.key} beside {kind.key} = 'yarn': nobody knows what such "
                "a model does"
            )
        return {"rope_type": kind, **_yarn(stated, architecture, factor, gain)}
    if short is None and gain.value != 1 and pairs:
        short = long = Sourced((1.0,) * pairs, gain.key)
    if short is not None and long is not None:
        if len(short.value) != pairs or len(long.value) != pairs:
            raise ConfigError(
                f"{header.path}: {short.key} has {len(short.value)} divisors, and {pairs} pairs "
                "turn: one for each is needed"
            )
        return _table(stated, short, long, factor.value, gain)
    return {"rope_type": Sourced("linear", kind.key), "factor": factor} if factor.value != 1 else {}


def considered(stated: Keys, architecture: Architecture) -> set[str]:
    """Keys that `scaling_values` asks for, and those that say what is done anyway."""
    names = {_TYPE, _FACTOR, _OLD_FACTOR, _GAIN, _ORIGINAL}
    if architecture.ramp is not None:
        names |= {_FAST, _SLOW}
    if architecture.gain is not None:
        names.add(_STRENGTH)
    return names | {key for key, value in _SAID_ANYWAY.items() if stated.values.get(key) == value}


def _tables(
    header: GGUFHeader,
) -> tuple[Sourced[tuple[float, ...]] | None, Sourced[tuple[float, ...]] | None]:
    """Divisors for short inputs and for long ones; one table in the file is for both."""
    if FREQUENCIES in header.tensors:
        one = _divisors(header, FREQUENCIES)
        return one, one
    if SHORT in header.tensors and LONG in header.tensors:
        return _divisors(header, SHORT), _divisors(header, LONG)
    return None, None


def _divisors(header: GGUFHeader, name: str) -> Sourced[tuple[float, ...]]:
    numbers = header.numbers(name)
    for x in numbers:
        if not 0 < x < math.inf:
            raise ConfigError(f"{header.path}: {name} holds {x}: divisors above zero are needed")
    return Sourced(numbers, name)


def _table(
    stated: Keys,
    short: Sourced[tuple[float, ...]],
    long: Sourced[tuple[float, ...]],
    factor: float,
    gain: Sourced[float],
) -> Values:
    original, context = _original(stated), stated.maybe_whole("context_length")
    reach = Sourced(1.0, "one table for every length")
    if short.value != long.value and context.value is not None:
        source = f"{context.key} / {original.key}"
        reach = Sourced(max(1.0, context.value / original.value), source)
    source = short.key
    if short.key == FREQUENCIES and (known := _as_llama3(stated, short.value)):
        source = f"{short.key}, as Llama3 of factor {known:g} has it"
    return {
        "rope_type": Sourced("longrope", source),
        "short_factor": Sourced([factor * x for x in short.value], source),
        "long_factor": Sourced([factor * x for x in long.value], long.key),
        "original_max_position_embeddings": original,
        "factor": reach,
        "attention_factor": gain,
    }


def _as_llama3(stated: Keys, divisors: Sequence[float]) -> float | None:
    """The factor of Llama 3's formula where it gives these divisors to 1e-6, else None."""
    base = stated.maybe_number("rope.freq_base").value or 10_000.0
    factor = max(divisors)
    for low, high in ((1.0, 4.0), (1.0, 1.0)):
        settings = {
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            # Its converter knows no other.
            "original_length": 8192,
        }
        at = [(i, base, 2 * len(divisors), 1) for i in range(len(divisors))]
        formula = [default(*pair) / llama3(*pair, **settings) for pair in at]
        if all(abs(x / y - 1) < 1e-6 for x, y in zip(divisors, formula, strict=True)):
            return factor if factor > 1 else None
    return None


def _original(stated: Keys) -> Sourced[int]:
    return stated.whole(_ORIGINAL, "context_length", least=2)


def _yarn(
    stated: Keys, architecture: Architecture, factor: Sourced[float], gain: Sourced[float]
) -> Values:
    values: Values = {"factor": factor, "original_max_position_embeddings": _original(stated)}
    if architecture.ramp is not None:
        fast, slow = stated.maybe_number(_FAST), stated.maybe_number(_SLOW)
        silent = Sourced(architecture.ramp, f"default of {stated.owner}")
        values["beta_fast"] = silent if fast.value is None else fast
        if slow.value is not None:
            values["beta_slow"] = slow
    strength = stated.maybe_number(_STRENGTH) if architecture.gain else Sourced(None, "")
    if architecture.gain is not None and strength.value:
        own = architecture.gain(factor.value, strength.value)
        if architecture.decoder.latent:
            values["log_multiplier"] = strength
        values["attention_factor"] = Sourced(own * gain.value, strength.key)
    elif gain.value != 1:
        # llama.cpp multiplies YaRN's own gain by it, and does not put it in its place.
        own = magnitude(factor.value, 1.0)
        values["attention_factor"] = Sourced(own * gain.value, f"m(1) * {gain.key}")
    return values
