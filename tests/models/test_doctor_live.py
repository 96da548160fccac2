"""A model in memory is compared with its configuration."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import SettingError
from posenc.models.doctor import examine

transformers = pytest.importorskip("transformers")
SIZES = {"hidden_size": 256, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 97}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 8192}


def model(**rope: Any) -> Any:
    rope = {"rope_type": "default", "rope_theta": 1e4} | rope
    config = transformers.LlamaConfig(**SIZES, **HEADS, rope_parameters=rope)
    return transformers.LlamaForCausalLM(config)


def live(source: Any, **settings: Any) -> Any:
    found = examine(source, engines=[], **settings).findings
    return next((x for x in found if x.rule == "live-frequencies"), None)


@pytest.mark.parametrize(
    "rope",
    [
        {},
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048},
    ],
    ids=str,
)
def test_a_model_as_it_was_made_is_sound(rope: dict[str, Any]) -> None:
    assert live(model(**rope)) is None


def test_one_that_was_cast_is_not() -> None:
    cast = model().to(torch.bfloat16)
    finding = live(cast)
    assert finding.weight == "error"
    assert finding.effect.angle > 1.0
    assert finding.numbers == {"name": "model.rotary_emb.inv_freq", "dtype": "bfloat16"}
    # Near by it is none, and with posenc's angles nowhere.
    assert live(cast, target_length=16) is None
    pe.attach(cast)
    assert live(cast) is None


def test_one_whose_settings_were_changed_afterwards_is_not() -> None:
    changed = model()
    changed.config.rope_parameters["rope_theta"] = 5e5
    assert live(changed).effect.pairs > 20


def test_weights_are_read_of_files() -> None:
    with pytest.raises(SettingError, match="give the folder"):
        examine(model(), weights=True)
