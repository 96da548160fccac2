"""Published configurations, and what their papers and code say that they mean."""

import json
from pathlib import Path
from typing import Any

import pytest

import posenc as pe
from posenc.models.read import read
from posenc.models.spec import LayerSpec, ModelSpec

FACTS = {path.stem: path for path in sorted(Path(__file__).with_name("facts").glob("*.json"))}
NAMES = {
    "rotary": "Rotary",
    "mrope": "MRoPE",
    "alibi": "ALiBi",
    "t5": "T5Bias",
    "deberta": "DeBERTa",
    "transformer_xl": "TransformerXL",
    "shaw": "Shaw",
    "learned": "Learned",
    "sinusoidal": "Sinusoid",
}
SCALINGS = {"Linear": "linear", "DynamicNTK": "dynamic", "NTK": "ntk alpha", "YaRN": "yarn"}
SCALINGS |= {"Llama3": "llama3", "LongRoPE": "longrope", "Proportional": "proportional"}


def facts(name: str) -> dict[str, Any]:
    return json.loads(FACTS[name].read_text("utf-8"))


def told(spec: ModelSpec) -> dict[str, Any]:
    """What the facts speak of: of layers that differ, of one that sees everything."""
    layers = [layer for layer in spec.layers if layer is not None]
    turning = [layer for layer in layers if layer.rotary]
    whole = [layer for layer in turning if layer.window is None and layer.chunk is None]
    layer = next(iter(whole or turning or layers))
    known = {
        "layers": len(spec.layers),
        "heads": layer.heads,
        "key_heads": layer.key_heads,
        "head_dim": layer.head_dim,
        "encoding": encoding(spec, layer),
        "trained_length": spec.main.trained_length,
        "original_length": spec.main.original_length,
    }
    if layer.rotary is not None:
        settings = layer.rotary.settings
        scaling = settings.get("scaling")
        known |= {
            "base": settings["base"],
            "rotary_dim": settings.get("rotary_dim", settings["dim"]),
            "layout": settings.get("layout", "half"),
            "scaling": scaling and SCALINGS[scaling.name],
        }
    return known


def encoding(spec: ModelSpec, layer: LayerSpec) -> str:
    specs = [x for x in layer.encodings if x.name != "temperature"] or spec.main.embeddings
    return NAMES[specs[0].name] if specs else "none"


@pytest.mark.parametrize("name", FACTS)
def test_a_published_file_says_what_its_paper_does(name: str) -> None:
    known = facts(name)
    said = told(read(known["config"]))
    asked = {key: value for key, value in known["facts"].items() if key in said}
    assert {key: said[key] for key in asked} == asked


@pytest.mark.parametrize("name", FACTS)
def test_every_value_names_its_key(name: str) -> None:
    """A key that is in the file, or what the code does where it is silent."""
    known = facts(name)["config"]
    keys = _keys(known)
    spec = read(known)
    for _, _, layer in spec.attention():
        assert {"heads", "key_heads", "head_dim", "scale"} <= set(layer.sources)
        for source in layer.sources.values():
            words = source.removeprefix("no ").split()[0].split("**")[0].strip("(")
            silent = source.startswith(("no ", "default of", "always in", "head_dim"))
            assert silent or words.split(".")[-1] in keys, source


def _keys(values: dict[str, Any]) -> set[str]:
    inner = [_keys(value) for value in values.values() if isinstance(value, dict)]
    return set(values).union(*inner)


def test_an_encoding_is_built_of_what_was_read() -> None:
    rope = read(facts("llama-3.1-8b")["config"]).layers[0].rotary.build()
    expected = pe.Rotary(128, 500_000.0, scaling=pe.Llama3(8.0, 1.0, 4.0, 8192))
    assert rope.settings() == expected.settings()
