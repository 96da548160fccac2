"""A file that leaves a number out is read as one that has what transformers takes for it."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from posenc.errors import ConfigError
from posenc.models.read import read
from posenc.models.read.families import FAMILIES
from posenc.models.spec import PartSpec

transformers = pytest.importorskip("transformers")
# Whose bases are those of their vendors' code, and transformers' are others.
VENDORS = {"exaone", "nomic_bert"}
# Files without key heads are older than these, and have as many as heads.
OLDER = {"num_key_value_heads"}
NAMES = set(FAMILIES) & set(transformers.CONFIG_MAPPING)
# Sizes that nobody has trained: 96 heads of 42 dimensions, of which 21 would turn.
NAMES.remove("glm4_moe")


def told(values: dict[str, Any]) -> dict[str, PartSpec]:
    """What is read, without the names of keys; a trained length may be unknown."""
    return {
        name: replace(
            part,
            layers=tuple(x if x is None else replace(x, sources={}) for x in part.layers),
            sources={},
        )
        for name, part in read(values).parts.items()
    }


@pytest.mark.parametrize("name", sorted(NAMES))
def test_what_is_left_out_is_as_in_transformers(name: str) -> None:
    values = transformers.CONFIG_MAPPING[name]().to_dict()
    whole = told(values)
    for key in [x for x, value in values.items() if type(value) is int and x not in OLDER]:
        try:
            found = told({x: value for x, value in values.items() if x != key})
        except ConfigError:
            # That the number is missing is said.
            continue
        for part, expected in whole.items():
            if found[part].trained_length is None:
                found[part] = replace(found[part], trained_length=expected.trained_length)
        assert found == whole, f"{name} without {key}"


def unturned(values: dict[str, Any]) -> dict[str, Any]:
    """What a file says but for the rotation."""
    return {
        key: unturned(value) if key.endswith("_config") and isinstance(value, dict) else value
        for key, value in values.items()
        if key != "rope_parameters"
    }


@pytest.mark.parametrize("name", sorted(NAMES - VENDORS))
def test_a_rotation_that_is_left_out_is_as_in_transformers(name: str) -> None:
    kind = transformers.CONFIG_MAPPING[name]
    values = unturned(kind().to_dict())
    assert told(values) == told(kind.from_dict(copy.deepcopy(values)).to_dict())


STRETCHED = ["apertus", "apertus1p5_text", "gpt_oss", "ministral3"]


@pytest.mark.parametrize("name", STRETCHED)
@pytest.mark.parametrize(
    "said",
    [
        {"rope_theta": 5e5},
        {"rope_theta": 5e5, "rope_scaling": None},
        {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
        {"rope_parameters": {"rope_type": "default"}},
    ],
    ids=str,
)
def test_what_is_said_of_a_stretched_rotation_is_as_in_transformers(
    name: str, said: dict[str, Any]
) -> None:
    kind = transformers.CONFIG_MAPPING[name]
    values = {**unturned(kind().to_dict()), **said}
    assert told(values) == told(kind.from_dict(copy.deepcopy(values)).to_dict())


@pytest.mark.parametrize("name", ["wav2vec2", "wav2vec2-conformer", "deepseek_v32", "kimi_linear"])
def test_keys_that_only_look_like_positions_are_left_alone(name: str) -> None:
    """The temperature of a loss, and which layers have experts."""
    assert read(transformers.CONFIG_MAPPING[name]().to_dict()).unread == ()
