"""What is written for GGUF, put into the file that llama.cpp's converter makes, and read back."""

import json
from pathlib import Path
from typing import Any

import pytest

from posenc.models.angles import compare
from posenc.models.read import read
from posenc.models.read.gguf.architectures import ARCHITECTURES
from posenc.models.spec import ModelSpec
from posenc.models.write import architectures, write
from tests.support.gguf_files import write_gguf
from tests.support.gguf_published import FACTS, FILES

# Its layers do not turn, of which the converter tells by a key that is no rotation's.
NO_ROTATION = "granite-4.0-h-350m"


def config(name: str) -> dict[str, Any]:
    return json.loads((FACTS / f"{name}.json").read_text("utf-8"))["config"]


def written_into_file(values: dict[str, Any], name: str, folder: Path) -> ModelSpec:
    """The converter's file of this name, with the rotation and windows that posenc writes."""
    file, written = FILES[name], write(values, "gguf")
    replaced = ("rope.", "attention.sliding_window")
    kept = {
        key: value
        for key, value in file.values.items()
        if not key.startswith(replaced) or key.endswith(("sections", "pattern"))
    }
    kept |= {key.partition(".")[2]: value for key, value in written.keys.items()}
    tensors = {key: x for key, x in file.tensors.items() if not key.startswith("rope")}
    assert {key.partition(".")[0] for key in written.keys} <= {file.architecture}
    path = write_gguf(folder / "x.gguf", file.architecture, kept, tensors | dict(written.tensors))
    return read(path)


@pytest.mark.parametrize("name", sorted(set(FILES) - {NO_ROTATION}))
def test_llama_cpp_makes_of_it_what_it_makes_of_its_converters(name: str, tmp_path: Path) -> None:
    file = FILES[name]
    own = read(write_gguf(tmp_path / "own.gguf", file.architecture, file.values, file.tensors))
    ours = written_into_file(config(name), name, tmp_path)
    effect = compare(own, ours, own.main.trained_length or 8192)
    assert effect is None or (max(effect.angle, abs(effect.gain - 1)) < 1e-6 and not effect.others)
    for layer, other in zip(ours.layers, own.layers, strict=True):
        assert (layer is None) == (other is None)
        if layer is not None and other is not None:
            assert layer.scale == pytest.approx(other.scale, rel=1e-6)
            assert layer.window == other.window


@pytest.mark.parametrize(("mscale", "verdict"), [(1.0, "exact"), (0.5, "approximate")])
def test_a_gain_of_mla_is_exact_where_cos_and_sin_have_none(mscale: float, verdict: str) -> None:
    values = config("deepseek-v3")
    values["rope_scaling"] |= {"mscale": mscale}
    lines = write(values, "gguf").lines
    assert next(line.verdict for line in lines if line.about == "scaling") == verdict


def test_no_pair_rests_by_an_infinite_number() -> None:
    table = write(config("gemma-4-e4b-it"), "gguf").tensors["rope_freqs.weight"]
    assert table == (1.0,) * 64 + (1e30,) * 192


@pytest.mark.parametrize(
    "name", ["deepseek-v3", "deepseek-v2-lite", "ministral-3-3b-reasoning-2512"]
)
def test_no_flag_changes_a_gain_that_the_file_has_undone(name: str) -> None:
    flags = write(config(name), "llama.cpp").flags
    assert float(flags[flags.index("--yarn-attn-factor") + 1]) == pytest.approx(1.0)


def test_gemma_that_sees_both_sides_has_a_name_of_its_own() -> None:
    values = config("gemma-3-27b-it")["text_config"]
    for both, name in ((False, "gemma3"), (True, "gemma-embedding")):
        keys = write(values | {"use_bidirectional_attention": both}, "gguf").keys
        assert {key.partition(".")[0] for key in keys} == {name}
        assert keys[f"{name}.attention.sliding_window"] == values["sliding_window"]


def test_every_name_is_one_of_llama_cpps() -> None:
    """Those that its files are read by; of T5's posenc reads none."""
    assert set(architectures._OTHERS) - set(ARCHITECTURES) == {"t5"}
