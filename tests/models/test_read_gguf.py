"""GGUF files say what the configurations say that they were made of, but for the layout."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import ConfigError
from posenc.models.read import read
from posenc.models.read.gguf.architectures import ARCHITECTURES, ENCODER_DECODERS, STATEFUL
from posenc.models.spec import EncodingSpec, LayerSpec, ModelSpec
from tests.models.test_read_facts import facts
from tests.support.gguf_files import sizes, write_gguf, yarn
from tests.support.gguf_published import FILES, KEYS, changed
from tests.support.trained import smollm2_gguf


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_what_its_configuration_does(name: str, tmp_path: Path) -> None:
    spec = read(write_gguf(tmp_path / "model.gguf", *FILES[name]))
    published = read(facts(name)["config"])
    assert spec.unread == ()
    assert len(spec.layers) == len(published.layers)
    for own, other in zip(spec.layers, published.layers, strict=True):
        assert (own is None) == (other is None)
        if own is not None and other is not None:
            # Phi-3's window is longer than any input, and llama.cpp leaves it out.
            beyond = (other.window or 0) > (published.main.trained_length or 0)
            same(own, replace(other, window=None) if beyond else other)
    rows = [dict(x.settings) for x in published.main.embeddings]
    assert [dict(x.settings) for x in spec.main.embeddings] == rows
    assert spec.main.original_length in (published.main.original_length, None)


def same(own: LayerSpec, other: LayerSpec) -> None:
    """Two layers do the same, whatever the layout of their pairs."""
    keep = ("heads", "key_heads", "head_dim", "value_dim", "causal", "window", "chunk")
    assert [getattr(own, x) for x in keep] == [getattr(other, x) for x in keep]
    assert own.scale == pytest.approx(other.scale, rel=1e-6)
    assert [x.name for x in own.encodings] == [x.name for x in other.encodings]
    for mine, theirs in zip(own.encodings, other.encodings, strict=True):
        if mine.name not in ("rotary", "mrope"):
            assert {**mine.settings} == pytest.approx({**theirs.settings})
            continue
        for length in (64, 1 << 20):
            turn, gain = turning(mine, length)
            expected, its = turning(theirs, length)
            assert gain == pytest.approx(its, rel=1e-6)
            assert turn == pytest.approx(expected, rel=1e-6, abs=1e-15)
        for key in ("start", "sections", "interleaved"):
            at, its = mine.settings.get(key), theirs.settings.get(key)
            assert (tuple(at) if key == "sections" and at else at) == its


def turning(spec: EncodingSpec, length: int) -> tuple[list[float], float]:
    """Radians per token of each pair, those that rest at the end, and the gain."""
    settings = dict(spec.settings)
    dim = settings.get("rotary_dim") or settings["dim"]
    kept = {name: settings[name] for name in ("base", "scaling") if name in settings}
    rope = EncodingSpec("rotary", {"dim": dim, **kept}).build()
    assert isinstance(rope, pe.Rotary)
    by_length = torch.tensor([[length]]) if rope.tags.length_dependent else None
    gain = rope.scaling.gain if rope.scaling else 1.0
    return rope.frequencies(by_length).flatten().tolist(), gain


@pytest.mark.parametrize("name", FILES)
def test_every_value_names_its_key(name: str, tmp_path: Path) -> None:
    file = FILES[name]
    known = {f"{file.architecture}.{key}" for key in file.values} | set(file.tensors)
    spec = read(write_gguf(tmp_path / "model.gguf", *file))
    said = [x for _, _, layer in spec.attention() for x in layer.sources.values()]
    for source in {*said, *spec.main.sources.values()}:
        silent = source.startswith(("no ", "default of", "always in", "head_dim", "pairs of"))
        one = source == "one table for every length"
        assert silent or one or re.split(r"[ ,*]", source.removeprefix("m(1) * "))[0] in known, (
            source
        )


def test_the_layout_is_that_of_llama_cpp(tmp_path: Path) -> None:
    layouts = {}
    for name in ("llama-3.1-8b", "command-r7b-12-2024", "qwen2.5-7b-instruct-yarn"):
        layer = read(write_gguf(tmp_path / f"{name}.gguf", *FILES[name])).layers[0]
        assert layer is not None
        assert layer.rotary is not None
        layouts[name] = layer.rotary.settings["layout"], layer.sources["encoding.layout"]
    assert layouts == {
        "llama-3.1-8b": (
            "interleaved",
            "pairs of 'llama' in llama.cpp, whose converter interleaves q and k of transformers' "
            "files",
        ),
        "command-r7b-12-2024": ("interleaved", "pairs of 'cohere2' in llama.cpp"),
        "qwen2.5-7b-instruct-yarn": ("half", "pairs of 'qwen2' in llama.cpp"),
    }


def test_a_table_of_divisors_says_which_formula_it_is(tmp_path: Path) -> None:
    file = FILES["llama-3.1-8b"]
    layer = read(write_gguf(tmp_path / "model.gguf", *file)).layers[0]
    assert layer is not None
    assert layer.rotary is not None
    scaling = layer.rotary.settings["scaling"]
    assert scaling.name == "LongRoPE"
    assert scaling.settings["short"] == scaling.settings["long"]
    assert scaling.settings["factor"] == scaling.settings["attention_factor"] == 1.0
    said = "rope_freqs.weight, as Llama3 of factor 8 has it"
    assert layer.sources["encoding.scaling.short"] == said
    other = {"rope_freqs.weight": [1.0 + i / 64 for i in range(64)]}
    layer = read(write_gguf(tmp_path / "model.gguf", *file[:2], other)).layers[0]
    assert layer is not None
    assert layer.sources["encoding.scaling.short"] == "rope_freqs.weight"


def scaling_of(spec: ModelSpec) -> Any:
    layer = next(x for x in spec.layers if x is not None)
    assert layer.rotary is not None
    return layer.rotary.settings.get("scaling")


def test_attn_factor_multiplies_what_yarn_has_itself(tmp_path: Path) -> None:
    name = "qwen2.5-7b-instruct-yarn"
    assert "attention_factor" not in scaling_of(changed(name, tmp_path)).settings
    scaling = scaling_of(changed(name, tmp_path, rope__scaling__attn_factor=0.5))
    gain = (0.1 * math.log(4) + 1) * 0.5
    assert scaling.settings["attention_factor"] == pytest.approx(gain)


def test_keys_that_llama_cpp_passes_over_are_named(tmp_path: Path) -> None:
    """Mistral's window in an old file; a ramp of which this architecture reads nothing."""
    spec = changed(
        "qwen2.5-7b-instruct-yarn",
        tmp_path,
        attention__sliding_window=4096,
        rope__scaling__yarn_beta_fast=16.0,
        rope__scaling__yarn_beta_slow=1.0,
        rope__scaling__finetuned=True,
    )
    assert spec.unread == ("qwen2.attention.sliding_window", "qwen2.rope.scaling.yarn_beta_fast")


def test_the_words_of_configurations_mean_nothing(tmp_path: Path) -> None:
    own = {"num_attention_heads": 1, "head_dim": 2, "rope_scaling": 5, "sliding_window": 7}
    for name in ("smollm2-135m-instruct", "bloom-176b", "deepseek-v3"):
        architecture = FILES[name].architecture
        plain, odd = changed(name, tmp_path), changed(name, tmp_path, **own)
        assert odd.parts == plain.parts
        assert odd.unread == (f"{architecture}.rope_scaling", f"{architecture}.sliding_window")


def test_linear_scaling_of_old_and_new_files(tmp_path: Path) -> None:
    name = "smollm2-135m-instruct"
    for key in ("rope__scaling__factor", "rope__scale_linear"):
        scaling = scaling_of(changed(name, tmp_path, **{key: 4.0}))
        assert (scaling.name, dict(scaling.settings)) == ("Linear", {"factor": 4.0})
    none = changed(name, tmp_path, rope__scaling__factor=4.0, rope__scaling__type="none")
    assert scaling_of(none) is None


def test_a_linear_factor_and_a_gain_become_a_table(tmp_path: Path) -> None:
    scaling = scaling_of(
        changed(
            "smollm2-135m-instruct",
            tmp_path,
            rope__scaling__factor=2.0,
            rope__scaling__attn_factor=1.5,
        )
    )
    assert scaling.settings["short"] == scaling.settings["long"] == (2.0,) * 32
    assert scaling.settings["attention_factor"] == 1.5


def test_gpt_oss_rounds_the_ramp(tmp_path: Path) -> None:
    """ggml rounds the ends of YaRN's ramp, and gpt-oss was trained with unrounded ones."""
    values = {
        **sizes(24, 2880, 64, 131072),
        KEYS: 8,
        "attention.key_length": 64,
        "attention.sliding_window": 128,
        "rope.freq_base": 150_000.0,
        **yarn(32.0, 4096),
    }
    own = read(write_gguf(tmp_path / "model.gguf", "gpt-oss", values))
    published = read(facts("gpt-oss-20b")["config"])
    scaling = scaling_of(own)
    assert "truncate" not in scaling.settings
    assert scaling_of(published).settings["truncate"] is False
    for mine, theirs in zip(own.layers, published.layers, strict=True):
        assert mine is not None
        assert theirs is not None
        assert mine.sink_logits
        same(replace(mine, encodings=()), replace(theirs, encodings=()))


@pytest.mark.parametrize("name", ["t5", "t5encoder"])
def test_t5_has_its_table_of_buckets(name: str, tmp_path: Path) -> None:
    values = {
        **sizes(6, 512, 8, 512),
        "attention.key_length": 64,
        "attention.relative_buckets_count": 32,
    }
    spec = read(write_gguf(tmp_path / "model.gguf", name, values))
    published = read(facts("t5-small")["config"])
    assert list(spec.parts) == (["decoder", "encoder"] if name == "t5" else ["encoder"])
    for part in spec.parts:
        for own, other in zip(spec.parts[part].layers, published.parts[part].layers, strict=True):
            assert own is not None
            assert other is not None
            assert own.encodings == other.encodings
            assert (own.heads, own.head_dim, own.scale) == (8, 64, 1.0)


def test_rows_in_the_file_are_counted(tmp_path: Path) -> None:
    """RoBERTa's, whose converter cuts off the rows before the first token."""
    file = tmp_path / "model.gguf"
    write_gguf(file, "bert", sizes(6, 384, 12, 512), {"position_embd.weight": [0.0] * 4})
    with pytest.raises(ConfigError, match=r"position_embd.weight has the shape \[4\]"):
        read(file)


def test_baichuans_large_model_has_a_bias(tmp_path: Path) -> None:
    for layers, width, expected in ((32, 4096, "rotary"), (40, 5120, "alibi")):
        values = sizes(layers, width, width // 128, 4096)
        layer = read(write_gguf(tmp_path / "model.gguf", "baichuan", values)).layers[0]
        assert layer is not None
        assert [x.name for x in layer.encodings] == [expected]


def test_a_model_of_states_has_no_attention(tmp_path: Path) -> None:
    values = {"block_count": 5, "context_length": 100, "attention.head_count": 0}
    for name in (*STATEFUL, "granitehybrid"):
        assert read(write_gguf(tmp_path / "model.gguf", name, values)).layers == (None,) * 5


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_every_architecture_is_read(name: str, tmp_path: Path) -> None:
    """Also of a file that says as little as may be."""
    values = {
        **sizes(8, 512, 8, 4096),
        KEYS: 4,
        "attention.sliding_window": 64,
        "attention.key_length": 64,
        "attention.key_length_swa": 32,
        "rope.dimension_count": 32,
    }
    spec = read(write_gguf(tmp_path / "model.gguf", name, values))
    assert spec.model_type == name
    layers = [layer for layer in spec.layers if layer is not None]
    assert layers
    for layer in layers:
        for encoding in layer.encodings:
            # posenc has no class for the others yet.
            if encoding.name in ("rotary", "alibi"):
                encoding.build()


def test_no_name_is_in_two_places() -> None:
    assert not set(ARCHITECTURES) & (STATEFUL | ENCODER_DECODERS)


@pytest.mark.trained
def test_the_real_file_says_what_its_configuration_does() -> None:
    own, other = read(smollm2_gguf()), read(facts("smollm2-135m-instruct")["config"])
    assert (own.model_type, own.unread) == (other.model_type, ())
    assert plain(own) == plain(other)
    layer = own.layers[0]
    assert layer is not None
    assert layer.rotary is not None
    assert layer.rotary.settings["layout"] == "interleaved"


def plain(spec: ModelSpec) -> list[Any]:
    """All of a model but layouts and sources."""
    part = replace(spec.main, sources={}, layers=())
    layers = []
    for layer in spec.layers:
        assert layer is not None
        encodings = [(x.name, {**x.settings, "layout": None}) for x in layer.encodings]
        layers.append((replace(layer, sources={}, encodings=()), encodings))
    return [part, *layers]
