"""What the doctor finds, and what it leaves alone."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from posenc.errors import ConfigError, SettingError, UnknownNameError
from posenc.models.doctor import examine
from posenc.models.doctor.engines import ENGINES
from posenc.models.doctor.finding import Finding
from posenc.models.spellings import merged
from posenc.models.write import TARGETS
from tests.support.doctor_cases import FACTS, LLAMA, SICK


def finding(config: dict[str, Any], rule: str, **options: Any) -> Finding | None:
    findings = [x for x in examine(config, **options).findings if x.rule == rule]
    assert len(findings) <= 1
    return findings[0] if findings else None


@pytest.mark.parametrize("name", SICK)
def test_a_fault_is_found_with_its_number_and_its_mend(name: str) -> None:
    rule, engine, config, weight = SICK[name]
    config = {key: x for key, x in config.items() if x is not None}
    result = finding(config, rule, engines=[engine] if engine else [])
    assert result is not None
    assert (result.weight, result.engine) == (weight, engine)
    if result.patch:
        mended = finding(merged(config, result.patch), rule, engines=[engine] if engine else [])
        assert mended is None


def test_every_loss_of_an_engine_has_a_file_that_shows_it() -> None:
    lost = {(loss.rule, engine.name) for engine in ENGINES.values() for loss in engine.losses}
    assert lost == {(rule, engine) for rule, engine, _, _ in SICK.values() if engine is not None}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_rule_is_in_the_table_of_the_docs(language: str) -> None:
    page = Path(__file__).parents[2] / "docs" / language / "howto" / "checkpoints.md"
    cells = re.findall(r"^\| (`.*?`) \|", page.read_text("utf-8"), re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(.*?)`", cell)}
    told = {rule for rule, _, _, _ in SICK.values()} | {"short-table", "beyond-training"}
    assert told <= named
    assert named - told == {*TARGETS, "stored-frequencies", "live-frequencies", "layout-of-weights"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_sound_file_is_left_alone(engine: str) -> None:
    config = LLAMA | {"rope_theta": 10_000.0, "max_position_embeddings": 512}
    assert examine(config, engines=[engine]).findings == ()


def test_a_window_bounds_how_far_an_error_reaches() -> None:
    """Tokens that never meet do not mind by how much their angles are off."""
    far = finding(LLAMA, "bfloat16-frequencies", target_length=65_536, engines=[])
    near = finding(
        LLAMA | {"model_type": "mistral", "sliding_window": 64},
        "bfloat16-frequencies",
        target_length=65_536,
        engines=[],
    )
    assert far is not None
    assert near is None


def test_a_picture_has_no_tokens_that_are_far_apart() -> None:
    config = json.loads(FACTS["dinov3-vits16-pretrain-lvd1689m"].read_text("utf-8"))["config"]
    assert finding(config, "bfloat16-frequencies", engines=[]) is None


def test_a_target_beyond_the_file_is_judged() -> None:
    beyond = finding(LLAMA, "beyond-training", target_length=32_768, engines=[])
    assert beyond is not None
    assert beyond.numbers["trained"] == 8192
    assert finding(LLAMA, "beyond-training", engines=[]) is None
    bert = json.loads(FACTS["bert-base-uncased"].read_text("utf-8"))["config"]
    short = finding(bert, "short-table", target_length=513, engines=[])
    assert short is not None
    assert short.weight == "error"
    assert finding(bert, "short-table", target_length=512, engines=[]) is None


@pytest.mark.parametrize("name", FACTS)
def test_every_published_file_is_examined(name: str) -> None:
    config = json.loads(FACTS[name].read_text("utf-8"))["config"]
    examination = examine(config)
    for result in examination.findings:
        sentences = [words.format(**result.numbers) for words in result.words]
        assert all(sentences)
        assert result.effect is None or math.isfinite(result.effect.angle + result.effect.gain)


@pytest.mark.parametrize("name", ["hunyuan-7b-instruct", "internlm2.5-7b", "internlm3-8b-instruct"])
def test_whose_code_has_a_dynamic_of_its_own_is_left_alone(name: str) -> None:
    config = json.loads(FACTS[name].read_text("utf-8"))["config"]
    rules = {x.rule for x in examine(config, engines=["mlx"]).findings}
    assert "unknown-type" not in rules
    if name.startswith("hunyuan"):
        assert finding(config, "no-dynamic", engines=["llama.cpp"]) is None


def test_wrong_calls_are_told() -> None:
    with pytest.raises(UnknownNameError, match="engine is called 'vlm'"):
        examine(LLAMA, engines=["vlm"])
    with pytest.raises(SettingError, match="at least 1"):
        examine(LLAMA, target_length=0)
    with pytest.raises(ConfigError, match="num_hidden_layers"):
        examine(LLAMA | {"num_hidden_layers": 10**9})


def test_neither_torch_nor_numpy_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    program = (
        "import sys; from posenc.models.doctor import examine; examine(sys.argv[1]); "
        "assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, str(file)], check=True)
