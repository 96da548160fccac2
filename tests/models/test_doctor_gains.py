"""The gain of cos and sin, of which vLLM and SGLang read other keys than transformers."""

import json
import math
from typing import Any

import pytest

from posenc.models.doctor import examine
from posenc.models.doctor.finding import Finding
from posenc.models.spellings import merged
from tests.support.doctor_cases import FACTS, LLAMA, YARN, nested, scaled

# m(1) of factor 16, as vLLM's issue 48621 gives it.
FORMULA = 1.2772588722239782
PAIR = {"mscale": 1.0, "mscale_all_dim": 1.0}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "hidden_size": 256,
    "max_position_embeddings": 65_536,
}


def gain_finding(config: dict[str, Any], engine: str) -> Finding | None:
    findings = [x for x in examine(config, engines=[engine]).findings if "gain" in x.rule]
    assert len(findings) <= 1
    return findings[0] if findings else None


def deepseek(**settings: Any) -> dict[str, Any]:
    return DEEPSEEK | {"rope_scaling": {**YARN, **settings}}


# Settings of YaRN, and by how much each engine's gain is larger than what transformers takes.
TAKEN = [
    ({}, 1.0, 1.0),
    (PAIR, FORMULA, 1.0),
    (
        {"mscale": 0.707, "mscale_all_dim": 1.0},
        FORMULA / ((FORMULA - 1) * 0.707 + 1) * FORMULA,
        1.0,
    ),
    ({"attention_factor": 1.0}, FORMULA, FORMULA),
    ({"attention_factor": FORMULA}, 1.0, 1.0),
    ({"attention_factor": 1.0, "attn_factor": 1 / FORMULA}, 1.0, 1.0),
    ({"attn_factor": 0.5}, 0.5, 0.5),
    # Each reads the half of what is there that the other leaves.
    ({**PAIR, "attention_factor": 1.0}, FORMULA, 1.0),
    ({"mscale": 1.0}, 1.0, 1.0),
]


@pytest.mark.parametrize(("settings", "vllm", "sglang"), TAKEN)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_gain_of_yarn(
    engine: str, settings: dict[str, float], vllm: float, sglang: float
) -> None:
    ratio = {"vllm": vllm, "sglang": sglang}[engine]
    result = gain_finding(scaled(**YARN, **settings), engine)
    if ratio == 1.0:
        assert result is None
    else:
        assert result is not None
        assert result.effect is not None
        assert result.effect.gain == pytest.approx(ratio)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(
    ("settings", "ratio"),
    [
        ({}, 1.0),
        (PAIR, 1.0),
        ({"attention_factor": 1.0}, FORMULA),
        ({**PAIR, "attention_factor": 2.0}, 0.5),
        # transformers reads both or neither, DeepSeek's own code each by itself.
        ({"mscale_all_dim": 1.0}, 1 / FORMULA),
    ],
)
def test_deepseek_has_a_yarn_of_its_own(
    engine: str, settings: dict[str, float], ratio: float
) -> None:
    result = gain_finding(deepseek(**settings), engine)
    assert (result is None) == (ratio == 1.0)
    if result is not None:
        assert result.effect is not None
        assert result.effect.gain == pytest.approx(ratio)


LONG = {
    "rope_type": "longrope",
    "factor": 8.0,
    "short_factor": [1.0] * 32,
    "long_factor": [2.0] * 32,
    "original_max_position_embeddings": 8192,
}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(
    "config",
    [
        scaled(**YARN, attention_factor=1.0),
        scaled(**YARN, attention_factor=1.0, mscale=0.5, mscale_all_dim=1.0),
        scaled(**YARN, attn_factor=0.5),
        nested(**YARN, attention_factor=1.0),
        deepseek(attention_factor=1.0),
        deepseek(mscale_all_dim=1.0),
        scaled(**LONG, attention_factor=2.0),
        nested(**LONG, attention_factor=2.0),
        scaled(**LONG, attention_factor=2.0, short_mscale=3.0, long_mscale=3.0),
    ],
)
def test_the_patch_mends_it(engine: str, config: dict[str, Any]) -> None:
    """And changes nothing of what transformers reads."""
    result = gain_finding(config, engine)
    assert result is not None
    assert result.patch is not None
    mended = merged(config, result.patch)
    assert gain_finding(mended, engine) is None
    assert examine(mended, engines=[]).spec.layers == examine(config, engines=[]).spec.layers


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_published_files_whose_gain_is_lost(engine: str) -> None:
    """Ministral 3 gives the pair alone; Phi-3's files lose nothing that the formula gives back."""
    config = {name: json.loads(path.read_text("utf-8"))["config"] for name, path in FACTS.items()}
    lost = {name for name, values in config.items() if gain_finding(values, engine)}
    assert lost == {"vllm": {"ministral-3-3b-reasoning-2512"}, "sglang": set()}[engine]


def test_a_model_without_yarn_has_no_gain_to_lose() -> None:
    for engine in ("vllm", "sglang"):
        assert gain_finding(LLAMA, engine) is None
        assert gain_finding(scaled(rope_type="linear", factor=8.0), engine) is None


@pytest.mark.parametrize("key", ["attention_factor", "mscale", "mscale_all_dim", "attn_factor"])
def test_keys_that_the_code_never_asks_for_may_hold_anything(key: str) -> None:
    bert = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "vocab_size": 9}
    bert |= {"model_type": "bert", "max_position_embeddings": 64}
    for value in ("x", [1.0], {}):
        examine(bert | {"rope_scaling": {**YARN, **PAIR, key: value}})


def test_numbers_are_those_of_the_reports() -> None:
    """vLLM's pull request 46280 gives 1.4159."""
    final = gain_finding(scaled(**{**YARN, "factor": 64.0}, attention_factor=1.0), "vllm")
    assert final is not None
    assert final.effect is not None
    assert final.effect.gain == pytest.approx(1.4158883)
    assert final.patch == {
        "rope_scaling": {"attn_factor": pytest.approx(1 / (0.1 * math.log(64) + 1))}
    }
