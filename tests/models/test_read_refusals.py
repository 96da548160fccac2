"""What is no configuration, or that of no model, gets one clear line, and soon."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import posenc as pe
from posenc.errors import ConfigError, PosencError, UnknownNameError
from posenc.models.read import read
from tests.models.test_read_facts import FACTS, facts

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "max_position_embeddings": 4096,
    "rope_theta": 10_000.0,
}


def refused(values: object, *words: str, error: type[PosencError] = ConfigError) -> None:
    with pytest.raises(error) as caught:
        read(values)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 5000
    for word in words:
        assert word in message


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads", "hidden_size"])
@pytest.mark.parametrize(
    "value",
    [10**9 * 5, 0, -1, 1.5, float("nan"), float("inf"), 10**5000, "32", True, [32], {"a": 1}],
    ids=lambda value: str(value)[:12] if not isinstance(value, int) or value < 10**10 else "long",
)
def test_a_size_that_no_model_has(key: str, value: object) -> None:
    refused({**LLAMA, key: value}, key, "a whole number from 1 to")


def test_a_thousand_million_layers() -> None:
    refused({**LLAMA, "num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000", "10000")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, 0.0, -1.0, "10000", [1.0]])
def test_a_base_that_turns_nothing(value: object) -> None:
    refused({**LLAMA, "rope_theta": value}, "rope_theta is")


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads", "hidden_size"])
def test_a_size_that_is_missing(key: str) -> None:
    refused({name: value for name, value in LLAMA.items() if name != key}, f"no {key}")


def test_key_heads_must_divide_heads() -> None:
    refused({**LLAMA, "num_key_value_heads": 3}, "num_key_value_heads is 3", "8 heads")


@pytest.mark.parametrize("head_dim", [63, 1])
def test_an_odd_head_cannot_turn(head_dim: int) -> None:
    refused({**LLAMA, "head_dim": head_dim}, str(head_dim), "an even number")


def test_a_part_of_a_head_that_no_model_has() -> None:
    deepseek = {**LLAMA, "model_type": "deepseek_v3", "num_key_value_heads": 8}
    for key in ("qk_rope_head_dim", "qk_nope_head_dim"):
        refused({**deepseek, key: 10**9}, f"{key} is 1000000000", "from 1 to 65536")
    refused({**LLAMA, "hidden_size": 1 << 31}, "hidden_size is 2147483648", "and at most 65536,")
    for kind in ("bert", "wav2vec2-conformer"):
        wide = {**LLAMA, "model_type": kind, "hidden_size": 1 << 30}
        refused({**wide, "position_embeddings_type": None}, "hidden_size / heads is 134217728")


def test_a_model_without_a_part() -> None:
    refused({"model_type": "llama4", "text_config": {"model_type": "x"}}, "no part of a llama4")

    gemma = facts("gemma-4-31b-it")["config"]
    inner = {**gemma["text_config"], "global_head_dim": 1 << 30}
    refused({**gemma, "text_config": inner}, "global_head_dim is 1073741824")


def test_a_ratio_that_leaves_no_base() -> None:
    conformer = facts("wav2vec2-conformer-rope-large")["config"]
    refused({**conformer, "rotary_embedding_base": None}, "rotary_embedding_base is None: a base")
    refused({**facts("glm-4-9b-chat")["config"], "rope_ratio": 0}, "rope_ratio is 0.0: a number fr")


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, 0.001])
def test_a_share_that_turns_no_pairs(share: float) -> None:
    refused({**LLAMA, "partial_rotary_factor": share}, "partial_rotary_factor is")


@pytest.mark.parametrize(
    "kinds",
    [
        ["full_attention"] * 3,
        ["full_attention"] * 5,
        [],
        ["full_attention", "full_attention", "full_attention", 7],
        ["full_attention", "full_attention", "full_attention", ["full_attention"]],
        ["full_attention", "full_attention", "full_attention", "sometimes"],
        ["full_attention"] * 100_000,
        "full_attention",
    ],
)
def test_layer_types_must_name_every_layer(kinds: object) -> None:
    refused({**LLAMA, "model_type": "qwen2", "layer_types": kinds}, "layer_types is")


def test_a_window_that_is_not_said() -> None:
    refused({**LLAMA, "layer_types": ["sliding_attention"] * 4}, "no sliding_window")


def test_a_scaling_that_nobody_knows() -> None:
    values = {**LLAMA, "rope_scaling": {"rope_type": "yarm", "factor": 4.0}}
    refused(values, "rope_scaling.rope_type is 'yarm'", "yarn")


@pytest.mark.parametrize(
    ("own", "word"),
    [
        ({"rope_type": "yarn"}, "without a factor"),
        ({"rope_type": "linear", "factor": None}, "without a factor"),
        ({"rope_type": "linear", "factor": "4"}, "rope_scaling.factor is '4'"),
        ({"rope_type": "linear", "factor": float("nan")}, "rope_scaling.factor is nan"),
        ({"rope_type": "llama3", "factor": 8.0}, "low_freq_factor"),
        ({"rope_type": "longrope", "factor": 8.0}, "short_factor"),
        ({"rope_type": "longrope", "short_factor": [10**400], "long_factor": [1]}, "short_factor"),
        ({"rope_type": ["yarn"]}, "a name"),
        ({"rope_type": "yarn", "type": "linear", "factor": 2.0}, "type is 'linear'"),
        ([1, 2], "an object"),
        ("yarn", "an object"),
    ],
)
def test_a_scaling_that_lacks_what_it_needs(own: object, word: str) -> None:
    refused({**LLAMA, "rope_scaling": own}, word)


def test_two_keys_of_one_meaning_must_agree() -> None:
    refused({**LLAMA, "n_head": 4}, "num_attention_heads is 8", "n_head is 4")
    refused({**LLAMA, "n_layer": 3}, "num_hidden_layers is 4", "n_layer is 3")
    refused(
        {**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
        "rope_parameters.rope_theta is 500000.0",
        "rope_theta is 10000.0",
    )
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    stretched = {**LLAMA, "rope_scaling": yarn}
    refused(
        {**stretched, "original_max_position_embeddings": 2048},
        "rope_scaling.original_max_position_embeddings is 1024",
        "and original_max_position_embeddings is 2048",
    )
    assert (
        read({**stretched, "original_max_position_embeddings": 1024}).main.original_length == 1024
    )
    assert read({**LLAMA, "n_head": 8}).layers[0].heads == 8


@pytest.mark.parametrize(
    ("kind", "near"), [("lama", "llama"), ("qwen3moe", "qwen3_moe"), ("Llama", "llama")]
)
def test_a_model_type_that_nobody_knows(kind: str, near: str) -> None:
    refused({**LLAMA, "model_type": kind}, kind, near, error=UnknownNameError)


@pytest.mark.parametrize("kind", [None, 5, ["llama"], "x" * 10_000_000])
def test_a_model_type_that_is_none(kind: object) -> None:
    refused({**LLAMA, "model_type": kind}, "model_type")


@pytest.mark.parametrize("source", [None, 5, [LLAMA], b"config.json", 1.5])
def test_a_source_that_is_none(source: object) -> None:
    refused(source, "a path, a folder or an object")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b"7",
        b'"llama"',
        b"\xff\xfe",
        b'{"model_type": "llama"',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"model_type": "llama", "num_hidden_layers": ' + b"9" * 100_000 + b"}",
    ],
    ids=lambda content: repr(content[:12]),
)
def test_a_file_that_is_no_configuration(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    refused(tmp_path, "config.json is not a model's configuration")
    refused(tmp_path / "config.json")
    refused(str(tmp_path))


def test_a_number_that_json_takes_for_infinite(tmp_path: Path) -> None:
    text = json.dumps(LLAMA).replace("10000.0", "1e999")
    (tmp_path / "config.json").write_text(text)
    refused(tmp_path, "rope_theta is inf")


def test_a_file_of_100_mb_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(100 << 20)
    refused(tmp_path, "larger than 8 MiB")


def test_what_is_not_there(tmp_path: Path) -> None:
    refused(tmp_path, "config.json")
    refused(tmp_path / "none.json", "none.json")
    refused("a\0b")


def test_what_no_encoding_says_is_refused_when_it_is_built() -> None:
    qwen = read(facts("qwen-7b")["config"]).layers[0].rotary
    with pytest.raises(pe.UnsupportedError, match="no scaling is QwenNTK"):
        qwen.build()
    heard = read(facts("wav2vec2-base-960h")["config"]).main.embeddings[0]
    with pytest.raises(pe.UnsupportedError, match="convolution"):
        heard.build()


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5000),
    st.sampled_from([10**9, 2**31, 2**63, 10**40, 10**5000, -1]),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(-1, 70), max_size=70),
    st.lists(st.lists(st.text(max_size=2), max_size=2), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
    st.sampled_from([[["global"], 10**9]]).map(lambda part: [part]),
)


def _places(values: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = [
        place
        for key, value in values.items()
        if isinstance(value, dict)
        for place in _places(value, (*path, key))
    ]
    return [*((*path, key) for key in values if key != "architectures"), *inner]


@pytest.mark.unchecked
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_changed_file_is_read_or_refused(data: st.DataObject) -> None:
    values = facts(data.draw(st.sampled_from(sorted(FACTS))))["config"]
    for _ in range(data.draw(st.integers(1, 3))):
        *outer, key = data.draw(st.sampled_from(_places(values)))
        inside = values
        for name in outer:
            inside = inside[name] if isinstance(inside.get(name), dict) else inside
        if data.draw(st.booleans()):
            inside[key] = data.draw(ODD)
        else:
            inside.pop(key, None)
    try:
        spec = read(values)
    except PosencError:
        return
    assert isinstance(spec, pe.ModelSpec)
    for _, _, layer in spec.attention():
        assert layer.heads % layer.key_heads == 0


def test_hostile_files_need_little_memory(tmp_path: Path) -> None:
    """Eight megabytes of brackets are the most that a file can ask for."""
    content = '{"model_type": "llama", "layer_types": [' + "[]," * 2_700_000 + "[]]}"
    (tmp_path / "config.json").write_text(content)
    code = (
        "import resource, sys, posenc as pe\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "try:\n    pe.read(sys.argv[1])\n"
        "except pe.PosencError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "layer_types is" in done.stdout
