"""Where configurations have their rotary settings: the keys of transformers 4 and of 5."""

from collections.abc import Callable, Mapping
from typing import Any

# Every key beside the rotary objects that says something of the rotation, and these themselves.
SPELLINGS = (
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "rotary_emb_base",
    "partial_rotary_factor",
    "rotary_pct",
    "rope_local_base_freq",
    "global_rope_theta",
    "local_rope_theta",
)


def text(values: dict[str, Any]) -> dict[str, Any]:
    """The part that writes text: its own object in files of several parts."""
    inner = values.get("text_config")
    return inner if isinstance(inner, dict) else values


def within_text(values: Mapping[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    """A patch of the part that writes text, as a patch of the whole file."""
    return {"text_config": inner} if "text_config" in values else inner


_ROPES = ("rope_parameters", "rope_scaling")


def ropes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every object of rotary settings: one, or one for each kind of layer."""
    whole = [values.get(name) for name in _ROPES]
    flat = [x for x in whole if isinstance(x, dict)]
    nested = [x for outer in flat for x in outer.values() if isinstance(x, dict)]
    return nested or flat


def ropes_patch(
    values: Mapping[str, Any], change: Callable[[dict[str, Any]], Mapping[str, Any]]
) -> dict[str, Any]:
    """What `change` says of each object of rotary settings, as a patch of the values.

    An empty change leaves its object as it is.
    """
    patch: dict[str, Any] = {}
    for name in _ROPES:
        outer = values.get(name)
        if not isinstance(outer, dict):
            continue
        inner = {key: change(rope) for key, rope in outer.items() if isinstance(rope, dict)}
        changes = {key: x for key, x in inner.items() if x} if inner else dict(change(outer))
        if changes:
            patch[name] = changes
    return patch


def kind(rope: Mapping[str, Any]) -> str:
    """The type of scaling under either of its names."""
    name = rope.get("rope_type") or rope.get("type") or "default"
    return name if isinstance(name, str) else "default"


def older(rope: Mapping[str, Any]) -> dict[str, Any]:
    """One rotation under the keys of transformers 4: the base and the share at the top."""
    inner = dict(rope)
    keys: dict[str, Any] = {}
    if (base := inner.pop("rope_theta", None)) is not None:
        keys["rope_theta"] = base
    # Of "proportional" the share is a setting of the scaling.
    if kind(inner) != "proportional" and "partial_rotary_factor" in inner:
        keys["partial_rotary_factor"] = inner.pop("partial_rotary_factor")
    plain = kind(inner) == "default" and not set(inner) - {"rope_type", "type"}
    return keys | {"rope_scaling": None if plain else inner}


def merged(values: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The values with a JSON merge patch (RFC 7396)."""
    result = dict(values)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            inner = result.get(key)
            result[key] = merged(inner if isinstance(inner, Mapping) else {}, value)
        else:
            result[key] = value
    return result
