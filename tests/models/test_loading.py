"""Models from files: what lacks weights is no model."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import posenc as pe
from posenc.models.loading import load_model
from tests.support.gguf_files import sizes, write_gguf
from tests.support.small_models import llama

transformers = pytest.importorskip("transformers")


def test_what_lacks_a_weight_is_refused(tmp_path: Path) -> None:
    llama().save_pretrained(tmp_path)
    load_model(tmp_path)
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(pe.ConfigError, match=r"lacks 1 weights of LlamaForCausalLM, model\.layers"):
        load_model(tmp_path)


@pytest.mark.parametrize("record", [3, ["wpe"], {"replaced": 3}, {"replaced": [3]}])
def test_a_record_that_is_none_is_refused(tmp_path: Path, record: object) -> None:
    model = llama()
    model.config.posenc = record
    model.save_pretrained(tmp_path)
    with pytest.raises(pe.ConfigError, match=r"config\.posenc is no record"):
        load_model(tmp_path)


@pytest.mark.parametrize("lost", [None, "mlp.c_fc.weight", "ln_1.bias"])
def test_a_model_saved_with_posenc_attached_lacks_its_table_alone(
    tmp_path: Path, lost: str | None
) -> None:
    config = transformers.GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=4)
    model = transformers.GPT2LMHeadModel(config)
    pe.attach(model, pe.ALiBi(4))
    model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    assert "transformer.wpe.weight" not in weights
    if lost is None:
        pe.attach(again := load_model(tmp_path).model)
        ids = torch.tensor([[1, 2, 3]])
        assert torch.equal(again(ids).logits, model.eval()(ids).logits)
        return
    del weights[f"transformer.h.1.{lost}"]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(pe.ConfigError, match=rf"lacks 1 weights of GPT2LMHeadModel.*{lost}"):
        load_model(tmp_path)


def test_the_header_of_a_file_is_no_model(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    values = sizes(1, 16, 2, 64, feed_forward_length=16, attention__layer_norm_rms_epsilon=1e-5)
    path = write_gguf(tmp_path / "header.gguf", "llama", values)
    with pytest.raises(pe.ConfigError, match=r"header\.gguf lacks 12 weights of Llama"):
        load_model(path)


@pytest.mark.parametrize("name", ["bert", "gemma2", "gpt2", "gpt_neox"])
def test_a_tokenizer_that_transformers_makes_of_no_file_is_none(tmp_path: Path, name: str) -> None:
    """Each word would be unknown to it, or nothing at all."""
    sizes = {"hidden_size": 32, "intermediate_size": 32, "head_dim": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.CONFIG_MAPPING[name](vocab_size=97, **sizes, **heads)
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path)
    assert load_model(tmp_path).tokenizer is None


def test_a_tokenizer_is_kept_in_whichever_file_it_is(tmp_path: Path) -> None:
    llama().save_pretrained(tmp_path)
    words = {"<unk>": 0, "one": 1, "two": 2}
    tokenizers = pytest.importorskip("tokenizers")
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(tmp_path)
    tokenizer = load_model(tmp_path).tokenizer
    assert tokenizer is not None
    assert tokenizer("two")["input_ids"] == [2]
    transformers.ByT5Tokenizer().save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert load_model(tmp_path).tokenizer is not None
