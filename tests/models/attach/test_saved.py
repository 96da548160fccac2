"""A model that was saved with another encoding has it again after `attach(model)`."""

from pathlib import Path
from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import ConfigError
from posenc.lowering import Lowerable

transformers = pytest.importorskip("transformers")
IDS = torch.randint(1, 97, (2, 12), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    config = transformers.LlamaConfig(vocab_size=97, **sizes, **heads)
    return transformers.LlamaForCausalLM(config).eval()


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits


def drawn(encoding: pe.Encoding) -> pe.Encoding:
    """With parameters that are not those of a fresh one."""
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding


ENCODINGS: dict[str, Lowerable] = {
    "alibi": pe.ALiBi(2),
    "learned": drawn(pe.T5Bias(2)),
    "scaling": pe.Rotary(16, scaling=pe.YaRN(4.0, 8)),
    "list": [pe.Rotary(16, base=500.0), pe.SlidingWindow(5)],
    "nested": pe.Sinks(2, window=4, rotary=pe.Rotary(16)),
    "fire": drawn(pe.FIRE(2)),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_it_computes_what_was_saved(model: Any, name: str, tmp_path: Path) -> None:
    plain = logits(model)
    attachment = pe.attach(model, ENCODINGS[name])
    expected = logits(model)
    assert (expected - plain).abs().max() > 2e-5
    model.save_pretrained(tmp_path)
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path).eval()
    assert str(pe.attach(again)) == str(attachment)
    torch.testing.assert_close(logits(again), expected, atol=1e-6, rtol=0)


def test_layers_that_differ_come_back_each_with_its_own(model: Any, tmp_path: Path) -> None:
    near, far = pe.SlidingWindow(3), pe.Rotary(16)
    pe.attach(model, lambda layer: [far, near] if layer == 0 else pe.ALiBi(2))
    expected = logits(model)
    model.save_pretrained(tmp_path)
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path).eval()
    pe.attach(again)
    torch.testing.assert_close(logits(again), expected, atol=1e-6, rtol=0)


def test_detached_models_tell_of_nothing(model: Any, tmp_path: Path) -> None:
    before, keys = logits(model), set(model.state_dict())
    pe.attach(model, pe.T5Bias(2))
    assert set(model.state_dict()) > keys
    pe.detach(model)
    assert torch.equal(logits(model), before)
    assert set(model.state_dict()) == keys
    model.save_pretrained(tmp_path)
    assert "posenc" not in (tmp_path / "config.json").read_text("utf-8")


def test_what_is_learned_gets_gradients_and_trains(model: Any) -> None:
    encoding = pe.T5Bias(2)
    pe.attach(model, encoding)
    model(IDS, labels=IDS).loss.backward()
    assert encoding.weight.grad is not None
    assert encoding.weight.grad.abs().sum() > 0
    assert any(x is encoding.weight for x in model.parameters())


def test_parameters_that_are_missing_are_named(model: Any, tmp_path: Path) -> None:
    pe.attach(model, pe.T5Bias(2))
    model.save_pretrained(tmp_path)
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"posenc\.0\.weight are in no safetensors file"):
        pe.attach(again)


@pytest.mark.parametrize(
    "record",
    [{}, {"encodings": [{"encoding_name": "alibi"}], "layers": [[0], [1]]}, {"encodings": 3}],
)
def test_a_record_that_is_none_is_refused(model: Any, record: dict[str, Any]) -> None:
    model.config.posenc = record
    with pytest.raises(ConfigError, match=r"config\.posenc is no record"):
        pe.attach(model)


def test_what_no_file_holds_is_to_be_given_again(model: Any, tmp_path: Path) -> None:
    pe.attach(model, pe.ALiBi(2))
    model.config.posenc = {"encodings": [{"not_written": "<function>"}], "layers": [[0], [0]]}
    model.save_pretrained(tmp_path)
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="give the encoding to posenc"):
        pe.attach(again)
    pe.attach(again, pe.ALiBi(2))


def test_a_second_attach_reads_what_was_saved_again(model: Any, tmp_path: Path) -> None:
    attachment = pe.attach(model, pe.ALiBi(2))
    expected = logits(model)
    model.save_pretrained(tmp_path)
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path).eval()
    pe.attach(again)
    pe.detach(again)
    assert str(pe.attach(again)) == str(attachment)
    torch.testing.assert_close(logits(again), expected, atol=1e-6, rtol=0)
