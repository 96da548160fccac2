"""Targets beyond what a file states: which pairs meet angles that training has not seen."""

import json
import math
from typing import Any

import pytest

from posenc.models.doctor import examine
from tests.support.doctor_cases import FACTS, LLAMA, YARN, scaled


def new_pairs(config: dict[str, Any], target: int) -> int:
    findings = examine(config, target_length=target, engines=[]).findings
    found = [x for x in findings if x.rule == "beyond-training"]
    assert len(found) <= 1
    return int(found[0].numbers["new"]) if found else 0


def fact(name: str) -> dict[str, Any]:
    return json.loads(FACTS[name].read_text("utf-8"))["config"]


def slow(base: float, dim: int, length: int) -> int:
    """Pairs that turn less than once in this length."""
    return sum(base ** (-2 * i / dim) * length < 2 * math.pi for i in range(dim // 2))


def test_a_plain_model_is_new_right_after_its_length() -> None:
    assert new_pairs(LLAMA, 8192) == 0
    assert new_pairs(LLAMA, 8193) == slow(500_000.0, 64, 8192)
    # No pair of so small a base turns less than once.
    assert new_pairs(LLAMA | {"rope_theta": 100.0}, 8193) == 0


def test_the_recipe_of_qwen_reaches_its_target_and_no_farther() -> None:
    """It states the length before the stretch, and is run at four times that."""
    config = fact("qwen2.5-7b-instruct-yarn")
    plain = {name: x for name, x in config.items() if name != "rope_scaling"}
    assert new_pairs(config, 131_072) == 0
    # The last pairs are stretched by 4, so that one token more is one angle more.
    assert new_pairs(config, 131_073) == slow(1e6, 128, 32_768)
    assert new_pairs(config, 262_144) == slow(1e6, 128, 32_768)
    assert new_pairs(plain, 131_072) == slow(1e6, 128, 32_768)


@pytest.mark.parametrize("factor", [3.0, 5.0, 7.0, 10.0])
def test_rounding_is_no_new_angle(factor: float) -> None:
    config = fact("qwen2.5-7b-instruct-yarn")
    config["rope_scaling"]["factor"] = factor
    assert new_pairs(config, int(32_768 * factor)) == 0


def test_a_stretched_length_that_is_stated_counts() -> None:
    """This file states what it reaches after the stretch."""
    config = scaled(**YARN)
    assert new_pairs(config, 65_536) == 0
    assert new_pairs(config, 65_537) == slow(500_000.0, 64, 4096)
    # Half the factor in training at the same length: the slow pairs went twice as far.
    half = scaled(**{**YARN, "factor": 8.0})
    assert new_pairs(half, 65_537) == slow(500_000.0, 64, 8192)


def test_only_the_pairs_that_turn_are_counted() -> None:
    """GPT-NeoX turns a quarter of a head."""
    config = fact("pythia-70m")
    findings = examine(config, target_length=4096, engines=[]).findings
    numbers = next(x for x in findings if x.rule == "beyond-training").numbers
    assert (numbers["new"], numbers["of"]) == (slow(10_000.0, 16, 2048), 8)


@pytest.mark.parametrize(
    ("factor", "target", "new"),
    [
        # The base grows faster than the input: the slowest pair falls behind where it was.
        (8.0, 16_384, 0),
        (8.0, 65_536, 0),
        # It grows just as fast, so that the slowest pair stays, and those before it go on.
        (1.0, 65_536, slow(500_000.0, 64, 8192) - 1),
    ],
)
def test_dynamic_ntk_is_asked_at_the_target(factor: float, target: int, new: int) -> None:
    rope = {"rope_type": "dynamic", "factor": factor}
    assert new_pairs(LLAMA | {"rope_scaling": rope}, target) == new


@pytest.mark.parametrize(("divisor", "new"), [(8.0, 0), (4.0, slow(500_000.0, 64, 8192))])
def test_long_rope_is_asked_by_its_long_factors(divisor: float, new: int) -> None:
    """Of a file that states the length before the stretch, as one reads it for the recipe."""
    rope = {
        "rope_type": "longrope",
        "factor": 8.0,
        "short_factor": [1.0] * 32,
        "long_factor": [divisor] * 32,
        "original_max_position_embeddings": 8192,
    }
    assert new_pairs(LLAMA | {"rope_scaling": rope}, 65_536) == new


def test_layers_that_see_a_part_meet_no_new_angle() -> None:
    sliding = LLAMA | {"model_type": "mistral", "sliding_window": 512}
    assert new_pairs(sliding, 65_536) == 0
    # Llama 4 turns in chunks alone.
    assert new_pairs(fact("llama-4-scout-17b-16e-instruct"), 20_000_000) == 0
