"""What cos and sin are multiplied by in engines that do not read attention_factor."""

from collections.abc import Callable
from typing import Any

from posenc.frequencies import magnitude, yarn_gain
from posenc.models.doctor.finding import Values
from posenc.models.spellings import kind, ropes, ropes_patch

# The gain that an engine computes from the object of one rotation with YaRN.
Gain = Callable[[Values], float]

_PAIR = ("mscale", "mscale_all_dim")
# Both engines run these by DeepSeek's own YaRN, whatever their type of YaRN is called.
_DEEPSEEK = frozenset({"deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2"})


def by_formula(rope: Values) -> float:
    """m(1), times attn_factor."""
    return magnitude(rope["factor"]) * _number(rope, "attn_factor", 1.0)


def by_pair(rope: Values) -> float:
    """m(mscale) / m(mscale_all_dim) where both are there, else m(1), times attn_factor."""
    pair = {name: _number(rope, name, None) for name in _PAIR}
    return yarn_gain(factor=rope["factor"], **pair) * _number(rope, "attn_factor", 1.0)


def by_deepseek(rope: Values) -> float:
    """m(mscale) / m(mscale_all_dim), 1 and 0 where they are not there, times attn_factor."""
    above, below = _number(rope, "mscale", 1.0), _number(rope, "mscale_all_dim", 0.0)
    ratio = magnitude(rope["factor"], above) / magnitude(rope["factor"], below)
    return ratio * _number(rope, "attn_factor", 1.0)


def yarn_taken_by(gain: Gain) -> Callable[[dict[str, Any]], bool]:
    """Put the engine's own gain in place of the file's."""

    def taken(values: dict[str, Any]) -> bool:
        concerned = [rope for rope in ropes(values) if _stretches(rope)]
        for rope in concerned:
            rope["attention_factor"] = _own(values, rope, gain)(rope)
        # DeepSeek V4 has no such gain, in any engine.
        return bool(concerned) and values.get("model_type") != "deepseek_v4"

    return taken


def attn_factor_for(gain: Gain) -> Callable[[Values], dict[str, Any]]:
    """attn_factor beside what is there: transformers ignores it, and these engines read it."""

    def patch(values: Values) -> dict[str, Any]:
        def beside(rope: Values) -> dict[str, Any]:
            if not _stretches(rope):
                return {}
            without = {**rope, "attn_factor": 1.0}
            return {"attn_factor": _meant(rope) / _own(values, rope, gain)(without)}

        return ropes_patch(values, beside)

    return patch


def long_rope_taken(values: dict[str, Any]) -> bool:
    """Put short_mscale in place of attention_factor, and the formula where neither is there."""
    concerned = [x for x in ropes(values) if _by_lists(x)]
    for rope in concerned:
        rope["attention_factor"] = rope.get("short_mscale")
    return bool(concerned)


def both_scales(values: Values) -> dict[str, Any]:
    """The gain of "longrope" under the names that these engines read."""

    def beside(rope: Values) -> dict[str, Any]:
        if not _by_lists(rope):
            return {}
        return dict.fromkeys(("short_mscale", "long_mscale"), rope.get("attention_factor"))

    return ropes_patch(values, beside)


def _own(values: Values, rope: Values, gain: Gain) -> Gain:
    theirs = values.get("model_type") in _DEEPSEEK or kind(rope) == "deepseek_yarn"
    return by_deepseek if theirs else gain


def _stretches(rope: Values) -> bool:
    return kind(rope) in ("yarn", "deepseek_yarn") and bool(_number(rope, "factor", 0.0))


def _by_lists(rope: Values) -> bool:
    return kind(rope) in ("longrope", "su")


def _meant(rope: Values) -> float:
    """As transformers reads it, to which 0 says nothing."""
    pair = {name: _number(rope, name, None) or None for name in _PAIR}
    own = _number(rope, "attention_factor", None)
    return yarn_gain(factor=rope["factor"], attention_factor=own, **pair)


def _number(rope: Values, name: str, silent: Any) -> Any:
    value = rope.get(name)
    return value if isinstance(value, int | float) else silent
