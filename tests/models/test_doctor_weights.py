"""What weights tell: frequencies that were stored, and the layout by the norms of rows."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import posenc as pe
from posenc.errors import ConfigError, SettingError
from posenc.models.doctor import examine
from posenc.models.doctor.report import as_json
from tests.support.doctor_cases import LLAMA

LAYERS, HEADS, HEAD_DIM = 4, 8, 64


def model(folder: Path, weights: dict[str, torch.Tensor]) -> Path:
    (folder / "config.json").write_text(json.dumps(LLAMA))
    save_file(weights, folder / "model.safetensors")
    return folder


def projections(trained: bool) -> dict[str, torch.Tensor]:
    """Rows of a pair share a norm, as training leaves them, in layout "half"."""
    generator = torch.Generator().manual_seed(0)
    weights = {}
    for layer in range(LAYERS):
        for name in ("q_proj", "k_proj"):
            weight = torch.randn(HEADS * HEAD_DIM, 512, generator=generator)
            if trained:
                norms = torch.randn(HEADS, 1, HEAD_DIM // 2, generator=generator).mul(0.5).exp()
                weight *= norms.expand(-1, 2, -1).reshape(-1, 1)
            weights[f"model.layers.{layer}.self_attn.{name}.weight"] = weight.bfloat16()
    return weights


def rules(folder: Path) -> dict[str, object]:
    findings = examine(folder, engines=[], weights=True).findings
    return {x.rule: x for x in findings}


def test_the_layout_is_told_by_norms(tmp_path: Path) -> None:
    found = rules(model(tmp_path, projections(trained=True)))["layout-of-weights"]
    assert found.weight == "note"
    assert found.numbers["layout"] == "half"
    assert found.numbers["votes"] == found.numbers["tensors"] == 2 * LAYERS


def test_the_wrong_layout_is_an_error(tmp_path: Path) -> None:
    weights = {
        name: pe.convert_layout(weight, "half", "interleaved", head_dim=HEAD_DIM)
        for name, weight in projections(trained=True).items()
    }
    found = rules(model(tmp_path, weights))["layout-of-weights"]
    assert (found.weight, found.numbers["layout"]) == ("error", "interleaved")
    assert found.numbers["probability"] == pytest.approx(1 - 0.5 ** (2 * LAYERS))


def test_weights_that_tell_nothing_accuse_nobody(tmp_path: Path) -> None:
    found = rules(model(tmp_path, projections(trained=False)))["layout-of-weights"]
    assert found.weight == "note"
    assert found.numbers["probability"] < 0.99


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_stored_frequencies_are_compared(tmp_path: Path, dtype: torch.dtype) -> None:
    """Exact ones pass, rounded ones are off at the last positions."""
    exact = pe.Rotary(HEAD_DIM, 500_000.0).frequencies()
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    found = rules(model(tmp_path, {name: exact.to(dtype)})).get("stored-frequencies")
    error = (exact.to(dtype).double() - exact).abs().max().item() * 8191
    if dtype.itemsize > 2:
        assert found is None
    else:
        assert found.weight == "error"
        assert found.effect.angle == pytest.approx(error)


def test_frequencies_of_another_base_are_found(tmp_path: Path) -> None:
    name = "model.rotary_emb.inv_freq"
    other = pe.Rotary(HEAD_DIM, 10_000.0).frequencies().float()
    assert "stored-frequencies" in rules(model(tmp_path, {name: other}))


@pytest.mark.parametrize("stored", [torch.ones(7), torch.full((HEAD_DIM // 2,), torch.nan)])
def test_what_cannot_be_compared_is_found_without_a_number(
    tmp_path: Path, stored: torch.Tensor
) -> None:
    examination = examine(model(tmp_path, {"model.rotary_emb.inv_freq": stored}), weights=True)
    found = next(x for x in examination.findings if x.rule == "stored-frequencies")
    assert found.weight == "error"
    assert found.effect is None
    # JSON has no infinity, and strict readers refuse one.
    json.dumps(as_json(examination), allow_nan=False)


def test_weights_need_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    with pytest.raises(ConfigError, match="has no safetensors file"):
        examine(tmp_path, weights=True)
    with pytest.raises(SettingError, match="give the folder"):
        examine(LLAMA, weights=True)
