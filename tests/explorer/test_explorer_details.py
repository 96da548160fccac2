"""Panels of the explorer that read or write what others use: config.json files and own classes."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import posenc
from posenc.explorer.tables import tables
from posenc.models.read.refused import REFUSED
from posenc.testing.suite import run_check
from tests.explorer.reference import configs
from tests.models.test_read_facts import FACTS, facts

ROOT = Path(__file__).parents[2]
EXPLORER = ROOT / "posenc" / "explorer"


def test_configs_are_read_as_transformers_reads_them() -> None:
    transformers = pytest.importorskip("transformers")
    rope_utils = pytest.importorskip("transformers.modeling_rope_utils")
    compared = 0
    for case in configs.configs():
        name, given, ropes = case
        if (
            len(ropes) > 1
            or "head_dim" not in given
            or not given.keys() & {"rope_scaling", "rope_parameters"}
        ):
            continue
        sizes = {"hidden_size": 2 * given["head_dim"], "num_attention_heads": 2}
        config = transformers.LlamaConfig(**(sizes | given))
        kind = config.rope_parameters["rope_type"]
        target = ropes[0][-1]
        inverse, gain = rope_utils.ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=target)
        expected = configs.config(*case)["ropes"][0]
        assert gain == pytest.approx(expected["gain"]), name
        torch.testing.assert_close(
            inverse.double(),
            torch.tensor(expected["inverse"], dtype=torch.float64),
            rtol=2e-6,
            atol=0,
        )
        compared += 1
    assert compared >= 5


def test_models_that_turn_nothing_are_those_of_the_reader() -> None:
    source = (EXPLORER / "math" / "model_types.js").read_text()
    (listed,) = re.findall(r"UNTURNED = \[(.*?)\]", source, re.DOTALL)
    sizes = ("hidden_size", "n_embd", "d_model", "dim", "embedding_size", "d_kv")
    counts = (
        "layers",
        "num_hidden_layers",
        "num_layers",
        "n_layer",
        "n_layers",
        "num_decoder_layers",
    )
    heads = ("num_attention_heads", "n_head", "n_heads", "num_heads")
    config: dict[str, Any] = dict.fromkeys(sizes, 64) | dict.fromkeys(counts, 2)
    config |= dict.fromkeys(heads, 4) | {"attention_types": [[["global"], 2]]}
    config |= {"image_size": 32, "patch_size": 16}
    config |= {
        f"{side}_{key}": n
        for side in ("encoder", "decoder")
        for key, n in (("layers", 2), ("attention_heads", 4))
    }

    def names(model_type: str) -> set[str]:
        spec = posenc.read(config | {"model_type": model_type})
        layers = (layer for part in spec.parts.values() for layer in part.layers)
        return {each.name for layer in layers for each in layer.encodings}

    # What is published of the others is compared by node.
    told = {facts(name)["config"]["model_type"] for name in FACTS}
    found = re.findall(r'"([\w-]+)"', listed)
    assert len(found) == 42
    for model_type in set(found) - told:
        assert "rotary" not in names(model_type), model_type
    assert "rotary" in names("llama")
    (refused,) = re.findall(r"REFUSED = \[(.*?)\]", source, re.DOTALL)
    assert set(re.findall(r'"([\w-]+)"', refused)) == set(REFUSED)


WAVES = [
    {"source": "typed", "expression": "sin(2*pi*t) * 0.8 + triangle(3*t) / 5"},
    {
        "source": "typed",
        "expression": "max(-0.5, square(t), sawtooth(t)^2) - frac(t) % 0.3",
        "pairing": "single",
    },
    {"source": "drawn"},
]


@pytest.mark.parametrize("settings", WAVES, ids=lambda case: case.get("expression", case["source"]))
def test_an_exported_wave_keeps_its_promises(
    settings: dict[str, Any], node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        f"import {{ panel }} from {json.dumps(str(EXPLORER / 'panels' / 'own_wave.js'))};\n"
        f"import {{ settingsFor }} from {json.dumps(str(ROOT / 'tests/explorer/page.mjs'))};\n"
        f"console.log(panel.python(settingsFor(panel, {json.dumps(settings)})));"
    )
    ended = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True
    )
    (tmp_path / "own_wave.py").write_text(ended.stdout)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_wave", raising=False)
    module = importlib.import_module("own_wave")
    (example,) = module.OwnWave.examples()
    wanted = (
        "check_repr",
        "check_reference_embed",
        "check_far_positions",
        "check_pickle",
        "check_docstring",
    )
    results = [run_check(example, name) for name in wanted]
    assert [(found.status, found.detail) for found in results] == [("passed", "")] * len(wanted)


def test_only_what_a_table_tells_is_tabulated() -> None:
    """PaTH begins otherwise than it goes on, and Swin's index runs over the rows of a grid."""
    assert list(tables([posenc.PaTH, posenc.RotaryValues, posenc.SwinBias, posenc.CABLE])) == [
        "rotary_values",
        "cable",
    ]


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return sum(share * x for share, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_letters_are_told_from_their_paper() -> None:
    style = (EXPLORER / "style.css").read_text()
    themes = re.findall(r"^:root[^{]*\{(.*?)^\}", style, re.DOTALL | re.MULTILINE)
    assert len(themes) == 2
    used = set(re.findall(r"(?<![-\w])color: var\((--[\w-]+)\)", style))
    assert {"--ink", "--muted", "--b-words", "--accent-words"} <= used
    for theme in themes:
        colours = dict(re.findall(r"(--[\w-]+): (#\w{6});", theme))
        for name in used:
            for paper in ("--paper", "--side"):
                bright, dark = sorted((luminance(colours[x]) for x in (name, paper)), reverse=True)
                assert (bright + 0.05) / (dark + 0.05) >= 4.5, f"{name} on {paper}"
