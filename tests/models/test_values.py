"""Configurations as they come: of a program, with values that are no JSON, and read once."""

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch

from posenc.errors import ConfigError
from posenc.models import read as reading
from posenc.models.doctor import examine
from posenc.models.doctor.engine import Engine, Loss
from posenc.models.doctor.finding import Case, Words
from posenc.models.read import read, read_with_values
from posenc.models.write import write
from tests.support.doctor_cases import FACTS, LLAMA, YARN, nested, scaled
from tests.support.gguf_files import sizes, write_gguf

# As `transformers` holds it in memory, before it writes config.json.
IN_MEMORY = {"torch_dtype": torch.bfloat16, "id2label": {0: "no"}, "quantization": {"skipped": {1}}}


@pytest.mark.parametrize(
    "config", [LLAMA, scaled(**YARN, attention_factor=1.0), nested(**YARN, truncate=False)]
)
def test_values_that_are_no_json_change_nothing(config: dict[str, Any]) -> None:
    given = config | IN_MEMORY
    assert examine(given).findings == examine(config).findings
    assert write(given, "vllm").flags == write(config, "vllm").flags
    written = write(given, "hf4").config
    assert written is not None
    assert written["torch_dtype"] is torch.bfloat16


def test_any_mapping_is_a_configuration() -> None:
    rope = MappingProxyType({**YARN, "attention_factor": 1.0})
    given = MappingProxyType(LLAMA | {"max_position_embeddings": 65_536, "rope_scaling": rope})
    assert examine(given).findings == examine(scaled(**rope)).findings
    assert "yarn-gain" in {finding.rule for finding in examine(given, engines=["vllm"]).findings}
    assert write(given, "hf5").config == write(scaled(**rope), "hf5").config


def test_what_is_given_is_not_changed() -> None:
    config = nested(**YARN, truncate=False)
    before = json.dumps(config)
    examine(config)
    write(config, "vllm")
    assert json.dumps(config) == before


def test_a_configuration_that_holds_itself_is_refused() -> None:
    config: dict[str, Any] = dict(LLAMA)
    config["config"] = config
    for call in (read, examine, lambda given: write(given, "hf5")):
        with pytest.raises(ConfigError, match="holds itself"):
            call(config)


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is replaced in between is not judged by halves of the two."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    loaded = []
    load = reading.load
    monkeypatch.setattr(reading, "load", lambda path: (loaded.append(path), load(path))[1])
    examine(file)
    write(tmp_path, "hf5")
    assert loaded == [file, file]
    spec, values = read_with_values(file)
    assert (spec, values) == (read(file), LLAMA)


def test_a_gguf_file_has_none_of_the_values_that_engines_read(tmp_path: Path) -> None:
    values = sizes(2, 256, 4, 2048, rope__freq_base=10_000.0)
    file = write_gguf(tmp_path / "model.gguf", "llama", values)
    spec, none = read_with_values(file)
    assert (spec, none) == (read(file), None)
    assert examine(file, target_length=2048).findings == ()
    with pytest.raises(ConfigError, match=r"model\.gguf is a GGUF file: give the config\.json"):
        write(file, "hf5")


def test_a_scaling_without_a_formula_hides_nothing_else() -> None:
    """Qwen's own growth of the base has none here; its other faults are told all the same."""
    qwen = json.loads(FACTS["qwen-7b"].read_text("utf-8"))["config"]
    rules = {finding.rule for finding in examine(qwen | {"rope_unheard_of": 1}).findings}
    assert "unread-keys" in rules

    words = Words("It does.", "确实如此。")
    computed = Loss("computed", lambda values: True, words, "")
    told = Loss("told", lambda values: True, words, "", weight="error")
    case = Case(read(qwen), qwen, 8192)
    findings = Engine("engine", "1", (computed, told)).findings(case)
    assert [finding.rule for finding in findings] == ["told"]
