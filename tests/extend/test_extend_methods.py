"""Each method is what transformers, or the encoding's own formula, makes of the same model."""

import json
from typing import Any

import pytest
import torch
from extend_models import TRAINED, tiny_config, tiny_model
from torch import Tensor

import posenc as pe
from posenc.errors import UnsupportedError
from posenc.extend.forward import score
from posenc.extend.methods import TABLE, Reach, encodings, settled
from posenc.extend.options import METHODS, SEARCHED
from posenc.extend.write import config_of
from posenc.models.attach import attach
from posenc.models.read import read

REACH = Reach(TRAINED, 4 * TRAINED)
SCALINGS = ("linear", "ntk", "dynamic", "yarn", "llama3")
ZONES = ("self_extend", "rerope", "lm_infinite", "sinks")


@pytest.fixture(scope="module")
def ids() -> Tensor:
    return torch.randint(0, 256, (REACH.target,), generator=torch.Generator().manual_seed(1))


def put(model: Any, method: str, length: int | None = None) -> None:
    layers = encodings(read(model.config.to_dict()), method, REACH)
    if length is not None:
        layers = [[settled(part, length) for part in parts] for parts in layers]
    attach(model, lambda number: layers[number])


def test_every_name_has_its_method() -> None:
    assert tuple(TABLE) == (*METHODS, SEARCHED)


@pytest.mark.parametrize("method", SCALINGS)
def test_a_scaling_is_what_transformers_makes_of_the_written_config(
    method: str, ids: Tensor
) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = tiny_model()
    written = config_of(json.loads(model.config.to_json_string()), method, REACH)
    theirs = LlamaForCausalLM(LlamaConfig.from_dict(written)).eval()
    theirs.load_state_dict(model.state_dict())
    with torch.no_grad():
        own = model(ids[None]).logits
        expected = theirs(ids[None]).logits
        put(model, method)
        logits = model(ids[None]).logits
    assert (logits - expected).abs().max() < 1e-5 * expected.abs().max()
    # And the method does something.
    assert (expected - own)[:, -TRAINED:].abs().max() > 0.1

    scored = score(with_method(model, method, len(ids)), ids, chunk=48)
    direct = torch.nn.functional.cross_entropy(expected[0, :-1], ids[1:], reduction="none")
    assert (scored.loss - direct).abs().max() < 1e-4


def with_method(model: Any, method: str, length: int) -> Any:
    put(model, method, length)
    return model


@pytest.mark.parametrize("method", ZONES)
def test_zones_leave_short_texts_as_they_were_and_change_long_ones(
    method: str, ids: Tensor
) -> None:
    model = tiny_model()
    near = TRAINED // 2
    before = score(model, ids).loss
    after = score(with_method(model, method, len(ids)), ids).loss
    assert (after - before)[: near - 1].abs().max() < 1e-5
    assert (after - before)[TRAINED:].abs().max() > 0.1


def test_nobody_sees_behind_the_window_of_lm_infinite_but_sinks(ids: Tensor) -> None:
    model = with_method(tiny_model(num_hidden_layers=1), "lm_infinite", len(ids))
    other = ids.clone()
    # Behind the first ten tokens, and before the last window.
    other[20:100] = (other[20:100] + 1) % 256
    assert torch.equal(score(model, ids, 200).loss, score(model, other, 200).loss)
    other[5] += 1
    assert not torch.equal(score(model, ids, 200).loss, score(model, other, 200).loss)


def test_dynamic_is_the_model_itself_within_its_trained_length() -> None:
    rotary = pe.Rotary(16, scaling=pe.DynamicNTK(4.0, TRAINED))
    assert repr(settled(rotary, TRAINED)) == repr(pe.Rotary(16))
    assert "NTK(factor=5.0)" in repr(settled(rotary, 2 * TRAINED))


def test_self_extend_meets_trained_distances_only() -> None:
    ((encoding,), _) = encodings(read(tiny_config().to_dict()), "self_extend", REACH)
    assert isinstance(encoding, pe.SelfExtend)
    whole = (TRAINED - encoding.window) * encoding.group + encoding.window
    assert whole >= REACH.target


def test_layers_of_a_short_window_keep_their_rotation_and_those_without_get_none() -> None:
    from transformers import Gemma3TextConfig, SmolLM3Config

    windows = Gemma3TextConfig(
        num_hidden_layers=6, sliding_window=TRAINED // 2, max_position_embeddings=TRAINED
    )
    kinds = [repr(parts) for parts in encodings(read(windows.to_dict()), "linear", REACH)]
    assert ["Linear" in kind for kind in kinds] == [False] * 5 + [True]

    nope = SmolLM3Config(num_hidden_layers=4, max_position_embeddings=TRAINED)
    layers = encodings(read(nope.to_dict()), "yarn", REACH)
    assert [len(parts) for parts in layers] == [1, 1, 1, 0]


def test_zones_refuse_a_model_that_turns_a_part_of_its_heads() -> None:
    from transformers import GPTNeoXConfig

    spec = read(GPTNeoXConfig(num_hidden_layers=1).to_dict())
    with pytest.raises(UnsupportedError, match="whole heads only"):
        encodings(spec, "rerope", REACH)
    ((scaled,),) = encodings(spec, "yarn", REACH)
    ((sinks,),) = encodings(spec, "sinks", REACH)
    assert "rotary_dim=24" in repr(scaled)
    assert "rotary_dim=24" in repr(sinks)


@pytest.mark.parametrize("method", ZONES)
def test_no_config_says_zones(method: str) -> None:
    with pytest.raises(UnsupportedError, match=r"no config\.json can say .*attach") as raised:
        config_of(tiny_config().to_dict(), method, REACH)
    assert "\n" not in str(raised.value)


def test_what_is_written_is_read_back(ids: Tensor) -> None:
    written = config_of(tiny_config().to_dict(), "yarn", REACH)
    part = read(written).main
    assert part.trained_length == REACH.target
    assert part.original_length == TRAINED
    assert part.layers[0] is not None
    assert part.layers[0].rotary is not None
    assert part.layers[0].rotary.build().settings()["scaling"] == pe.YaRN(4.0, TRAINED)
