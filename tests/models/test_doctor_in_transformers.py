"""The faults that the doctor tells of transformers, seen in transformers itself."""

import copy
from typing import Any

import pytest
import torch

from posenc.models.doctor import examine
from posenc.models.doctor.engines.whole_heads import WHOLE_HEADS
from posenc.models.read import read
from posenc.models.read.families import FAMILIES
from posenc.models.read.vision import TOWERS
from tests.models.test_read_in_transformers import compare
from tests.support.doctor_cases import SICK
from tests.support.published import Published

transformers = pytest.importorskip("transformers")

KINDS = {"llama": "Llama", "gemma3_text": "Gemma3"}


def rotary(config: dict[str, Any]) -> torch.nn.Module:
    """The rotary module that transformers builds of a configuration."""
    family = transformers.CONFIG_MAPPING[config["model_type"]]
    name = KINDS[config["model_type"]]
    module = __import__(
        f"transformers.models.{name.lower()}.modeling_{name.lower()}",
        fromlist=[f"{name}RotaryEmbedding"],
    )
    return getattr(module, f"{name}RotaryEmbedding")(config=family.from_dict(dict(config)))


def sick(name: str) -> dict[str, Any]:
    return SICK[name][2]


def effect(config: dict[str, Any], rule: str) -> Any:
    findings = examine(config, engines=["transformers"]).findings
    return next(x for x in findings if x.rule == rule).effect


def test_truncate_within_a_kind_of_layer_is_not_read() -> None:
    """As far off as the doctor computes, in every pair."""
    config = sick("D1")
    outer = config["rope_parameters"]
    whole = outer["full_attention"] | {"truncate": True}
    told = rotary(config).full_attention_inv_freq
    other = rotary(config | {"rope_parameters": {**outer, "full_attention": whole}})
    assert torch.equal(told, other.full_attention_inv_freq)
    beside = rotary(config | {"rope_parameters": {**outer, "truncate": False}})
    error = (beside.full_attention_inv_freq - told).abs().max() * 65_535
    assert error.item() == pytest.approx(effect(config, "yarn-truncate").angle, rel=1e-3)


def test_a_share_of_a_head_is_not_read_by_llama() -> None:
    assert rotary(sick("D2")).inv_freq.shape == (32,)
    half = effect(sick("D2"), "partial-ignored")
    assert half.angle > 0.5


# Their code does not turn by a share of a head, whatever it is: MLA says how many dimensions turn.
LATENT = {"deepseek_v2", "deepseek_v3", "deepseek_v32", "minicpm3", "sarvam_mla", "youtu"}
LATENT |= {"hy_v4", "hy_v4_vl_text"}


def turning() -> list[str]:
    """Model types of one part whose heads turn by what rope_parameters says."""
    towers = {name for name in FAMILIES if name in TOWERS or name.endswith("_vision")}
    known = set(FAMILIES) & set(transformers.CONFIG_MAPPING) - LATENT - towers
    defaults = {name: transformers.CONFIG_MAPPING[name]().to_dict() for name in known}
    return sorted(name for name, values in defaults.items() if "rope_parameters" in values)


def widths(values: dict[str, Any], share: float) -> dict[str, int]:
    """How many pairs turn in transformers, for each kind of layer of type "default"."""
    values = copy.deepcopy(values)
    outer = values["rope_parameters"]
    kinds = {kind: x for kind, x in outer.items() if isinstance(x, dict)} or {"": outer}
    plain = {kind for kind, x in kinds.items() if x.get("rope_type", "default") == "default"}
    if not plain:
        # Stretched by default: the same without.
        values["rope_parameters"] = {"rope_type": "default", "rope_theta": 10_000.0}
        kinds, plain = {"": values["rope_parameters"]}, {""}
    values.pop("partial_rotary_factor", None)
    for kind in plain:
        kinds[kind]["partial_rotary_factor"] = share
    module = Published(values).rotation()
    assert module is not None
    return {
        kind: len(getattr(module, f"{kind}_inv_freq" if kind else "inv_freq")) for kind in plain
    }


@pytest.mark.parametrize("name", turning())
def test_who_does_not_read_a_share_is_listed(name: str) -> None:
    values = transformers.CONFIG_MAPPING[name]().to_dict()
    whole, half = widths(values, 1.0), widths(values, 0.5)
    assert (half == whole) == (name in WHOLE_HEADS)


def test_nobody_is_listed_whom_transformers_does_not_know() -> None:
    """Of a model of several parts a file from before it had parts is meant."""
    # EXAONE 3 came with transformers 5.24.
    later = {"exaone"} - set(transformers.CONFIG_MAPPING)
    assert WHOLE_HEADS - set(turning()) == {"exaone4_5_text", "qwen2_vl", "qwen2_5_vl"} | later


def test_a_share_of_a_head_with_a_scaling_does_not_fit() -> None:
    config = sick("D2, scaled")
    module = rotary(config)
    assert module.inv_freq.shape == (16,)
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    cos, sin = module(torch.zeros(1), torch.arange(3)[None])
    q = torch.zeros(1, 8, 3, 64)
    with pytest.raises(RuntimeError, match="must match the size"):
        apply_rotary_pos_emb(q, q, cos, sin)


def test_a_base_that_a_file_leaves_out() -> None:
    """EXAONE's own code takes another for it than transformers, which has one from 5.24 on."""
    config = sick("unsaid base")
    assert read(config).layers[0].rotary.settings["base"] == 10_000.0
    if "exaone" in transformers.CONFIG_MAPPING:
        slower = Published(config).rotation().inv_freq[1].item()
        assert slower == pytest.approx(500_000.0 ** (-1 / 32), rel=1e-6)


def test_a_cast_rounds_frequencies() -> None:
    config = sick("D3")
    module = rotary(config)
    exact = module.inv_freq.clone()
    error = (module.to(torch.bfloat16).inv_freq.float() - exact).abs().max() * 8191
    expected = next(x for x in examine(config, engines=[]).findings if x.effect).effect
    assert expected is not None
    assert error.item() == pytest.approx(expected.angle, rel=1e-3)


def test_a_gain_by_kind_is_written_where_nobody_reads() -> None:
    module = rotary(sick("D4"))
    assert not hasattr(module, "attention_scaling")
    module(torch.zeros(1), torch.arange(70_000)[None], layer_type="full_attention")
    assert module.attention_scaling == 1.0
    assert module.full_attention_attention_scaling == 1.0


@pytest.mark.parametrize("kind", ["su", "mrope", "ntk", "deepseek_yarn"])
def test_an_unknown_type_is_not_built(kind: str) -> None:
    lists = {"short_factor": [1.0] * 32, "long_factor": [1.0] * 32}
    rope = {"type": kind, "factor": 8.0, "original_max_position_embeddings": 8192, **lists}
    config = sick("D3") | {"rope_scaling": rope}
    with pytest.raises(KeyError, match=kind):
        rotary(config)
    findings = examine(config, engines=["transformers"]).findings
    assert "unknown-type" in {finding.rule for finding in findings}


@pytest.mark.parametrize("kind", ["yarn", "linear", "dynamic", "llama3", "longrope", "default"])
def test_phi3_loads_with_longrope_alone(kind: str) -> None:
    numbers = {"factor": 8.0, "original_max_position_embeddings": 8192}
    lists = {"short_factor": [1.0] * 32, "long_factor": [1.0] * 32}
    more = {"llama3": {"low_freq_factor": 1.0, "high_freq_factor": 4.0}, "longrope": lists}
    rope = {"rope_type": kind, **(numbers if kind != "default" else {}), **more.get(kind, {})}
    config = sick("phi3") | {"rope_scaling": rope, "pad_token_id": 0}
    rules = {finding.rule for finding in examine(config, engines=["transformers"]).findings}
    if "long-rope-only" not in rules:
        assert kind in ("longrope", "default")
        phi3_rotary(config)
        return
    with pytest.raises(Exception, match="longrope"):
        phi3_rotary(config)


def phi3_rotary(config: dict[str, Any]) -> torch.nn.Module:
    from transformers.models.phi3 import modeling_phi3

    told = transformers.Phi3Config.from_dict(copy.deepcopy(config))
    return modeling_phi3.Phi3RotaryEmbedding(config=told)


def test_what_sarvams_class_translates_is_read_as_it_is_and_no_finding() -> None:
    """The form of the vendor's own code: the width of a query, of a latent key, DeepSeek's YaRN."""
    values = transformers.CONFIG_MAPPING["sarvam_mla"]().to_dict()
    del values["rope_parameters"]
    stretch = {"type": "deepseek_yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0}
    stretch |= {"original_max_position_embeddings": 4096}
    values |= {"q_head_dim": 192, "head_dim": 576, "rope_scaling": stretch, "rope_theta": 10_000.0}
    compare(values)
    assert read(values).unread == ()
    assert "unknown-type" not in {x.rule for x in examine(values).findings}
    other = {**values, "model_type": "deepseek_v3"}
    assert "unknown-type" in {x.rule for x in examine(other).findings}
