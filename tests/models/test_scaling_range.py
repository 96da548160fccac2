"""Scalings whose formula has no meaning: what `read` refuses without torch is what `build` does."""

import re
from typing import Any

import pytest

import posenc as pe
from posenc.models.read import read, rope
from tests.support.doctor_cases import LLAMA

YARN = {"rope_type": "yarn", "factor": 2.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONG = {
    "rope_type": "longrope",
    "factor": 2.0,
    "original_max_position_embeddings": 2048,
    "short_factor": [1.0] * 32,
    "long_factor": [2.0] * 32,
}


@pytest.mark.parametrize(
    ("own", "beside", "message"),
    [
        ({"rope_type": "linear", "factor": 0}, {}, "rope_scaling.factor is 0.0: a number of at le"),
        ({"rope_type": "linear", "factor": 0.5}, {}, "rope_scaling.factor is 0.5: a number of at "),
        ({"rope_type": "dynamic", "factor": 0.5}, {}, "rope_scaling.factor is 0.5"),
        ({**YARN, "factor": 0.5}, {}, "rope_scaling.factor is 0.5"),
        ({**YARN, "attention_factor": 0}, {}, "rope_scaling.attention_factor is 0.0"),
        ({**YARN, "beta_slow": 0}, {}, "rope_scaling.beta_slow is 0.0: 0 < beta_slow <= beta_fast"),
        ({**YARN, "beta_fast": 0.5}, {}, "rope_scaling.beta_fast is 0.5: 0 < beta_slow"),
        (YARN, {"rope_theta": 1.0}, "asks for YaRN, whose formula has no meaning for 32 pairs and"),
        ({**LLAMA3, "factor": 0}, {}, "rope_scaling.factor is 0.0"),
        ({**LLAMA3, "low_freq_factor": 0}, {}, "rope_scaling.low_freq_factor is 0.0: 0 < low_"),
        ({**LLAMA3, "low_freq_factor": 5}, {}, "rope_scaling.low_freq_factor is 5.0: 0 < low_"),
        ({**LONG, "short_factor": [1.0] * 3}, {}, "short_factor is (1.0, 1.0, 1.0): a list of 32"),
        ({**LONG, "long_factor": [1.0] * 33}, {}, "a list of 32, one for each pair that turns,"),
        ({**LONG, "factor": 0.5}, {}, "rope_scaling.factor is 0.5"),
        (
            {**LONG, "factor": None, "original_max_position_embeddings": 16384},
            {},
            "max_position_embeddings / rope_scaling.original_max_position_embeddings is 0.5",
        ),
        (
            {**LONG, "original_max_position_embeddings": 1},
            {},
            "original_max_position_embeddings is 1: a length of at least 2 is needed",
        ),
        ({"rope_type": "ntk", "factor": 2.0}, {"head_dim": 2}, "asks for NTK, whose formula has"),
        (
            {"rope_type": "proportional", "partial_rotary_factor": 1.5},
            {},
            "partial_rotary_factor is 1.5: a share that turns a pair",
        ),
    ],
)
def test_a_scaling_out_of_range_is_refused_as_build_refuses_it(
    own: object, beside: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {**LLAMA, **beside, "rope_scaling": own}
    with pytest.raises(pe.ConfigError, match=re.escape(message)):
        read(values)
    monkeypatch.setattr(rope, "check_range", lambda *_: None)
    unchecked = read(values).layers[0].rotary
    with pytest.raises(pe.SettingError):
        unchecked.build()


@pytest.mark.parametrize("own", [YARN, LLAMA3, LONG, {**YARN, "factor": 1, "beta_fast": 1.0}])
def test_a_scaling_at_the_end_of_its_range_is_built(own: object) -> None:
    read({**LLAMA, "rope_scaling": own}).layers[0].rotary.build()
