"""Models from files: what lacks weights is no model."""

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

import posenc as pe
from posenc.models.loading import load_model
from tests.support.gguf_files import sizes, write_gguf
from tests.support.small_models import llama

pytest.importorskip("transformers")


def test_what_lacks_a_weight_is_refused(tmp_path: Path) -> None:
    llama().save_pretrained(tmp_path)
    load_model(tmp_path)
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(pe.ConfigError, match=r"lacks 1 weights of LlamaForCausalLM, model\.layers"):
        load_model(tmp_path)


def test_the_header_of_a_file_is_no_model(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    values = sizes(1, 16, 2, 64, feed_forward_length=16, attention__layer_norm_rms_epsilon=1e-5)
    path = write_gguf(tmp_path / "header.gguf", "llama", values)
    with pytest.raises(pe.ConfigError, match=r"header\.gguf lacks 12 weights of Llama"):
        load_model(path)
