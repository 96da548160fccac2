"""Published configurations, and what their papers and code say that they mean."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import posenc as pe
from posenc.models.read import read
from posenc.models.spec import EncodingSpec, LayerSpec, ModelSpec, PartSpec

FACTS = {path.stem: path for path in sorted(Path(__file__).with_name("facts").glob("*.json"))}
NAMES = {
    "rotary": "Rotary",
    "mrope": "MRoPE",
    "axial": "AxialRotary",
    "dual_chunk": "DualChunk",
    "alibi": "ALiBi",
    "t5": "T5Bias",
    "deberta": "DeBERTa",
    "transformer_xl": "TransformerXL",
    "shaw": "Shaw",
    "learned": "Learned",
    "sinusoidal": "Sinusoid",
    "convolution": "convolution",
    "swin": "relative position bias table",
    "log_cpb": "continuous relative position bias",
}
SCALINGS = {"Linear": "linear", "DynamicNTK": "dynamic", "NTK": "ntk alpha", "YaRN": "yarn"}
SCALINGS |= {"Llama3": "llama3", "LongRoPE": "longrope", "Proportional": "proportional"}
SCALINGS |= {"QwenNTK": "qwen ntk"}
# What posenc has no encoding, setting or scaling for.
BEYOND = {"convolution", "QwenNTK"}
BEYOND |= {"before_projections", "each_axis_in_its_half"}
# Facts that say more of the model than positions do.
ASIDE = {"notes", "part", "softcap", "selection"}


def facts(name: str) -> dict[str, Any]:
    return json.loads(FACTS[name].read_text("utf-8"))


def told(spec: ModelSpec, part: PartSpec) -> dict[str, Any]:
    """What the facts speak of: of the first layer, and of the first that sees everything."""
    numbered = [(i, layer) for i, layer in enumerate(part.layers) if layer is not None]
    layers = [layer for _, layer in numbered]
    turning = [layer for layer in layers if layer.rotary]
    local = [layer for layer in turning if _near(layer)]
    whole = [layer for layer in turning if not _near(layer)]
    layer = next(iter(whole or turning or layers))
    first = layers[0]
    known = {
        "layers": len(part.layers),
        "attention_layers": [i for i, _ in numbered],
        "no_rope": [i for i, x in numbered if not x.rotary],
        "heads": _alike(layer.heads for layer in layers),
        "key_heads": _alike(layer.key_heads for layer in layers) if not whole else first.key_heads,
        "head_dim": first.head_dim,
        "value_head_dim": first.value_dim,
        "global_head_dim": layer.head_dim,
        "global_key_heads": layer.key_heads,
        "scale": pytest.approx(first.scale, rel=1e-12),
        "sinks": first.sink_logits,
        "encoding": encoding(part, layer),
        "windows": _widths("width", {i: x.window for i, x in numbered}),
        "chunks": _widths("length", {i: x.chunk for i, x in numbered}),
        "temperature": _temperature(part),
        "trained_length": part.trained_length,
        "original_length": part.original_length,
        "unread": list(spec.unread),
        **_settings(layer.encodings[0] if layer.encodings else None),
    }
    if layer.rotary is not None:
        known |= _rotation(layer.rotary)
    if local:
        near = local[0].rotary.settings
        known |= {"local_base": near["base"], "local_scaling": near.get("scaling")}
    if "decoder" in spec.parts and "encoder" in spec.parts:
        decoder = spec.parts["decoder"]
        known["decoder_encoding"] = encoding(decoder, decoder.layers[0])
        known["decoder_length"] = decoder.trained_length
    return known


def _near(layer: LayerSpec) -> bool:
    return layer.window is not None or layer.chunk is not None


def _alike(numbers: Iterable[int]) -> int | list[int]:
    seen = list(dict.fromkeys(numbers))
    return seen[0] if len(seen) == 1 else seen


def _widths(name: str, widths: dict[int, int | None]) -> dict[str, Any] | None:
    given = {i: width for i, width in widths.items() if width is not None}
    if not given:
        return None
    assert len(set(given.values())) == 1
    return {name: next(iter(given.values())), "layers": list(given)}


def _temperature(part: PartSpec) -> dict[str, Any] | None:
    specs = {
        i: spec.settings
        for i, layer in enumerate(part.layers)
        for spec in (layer.encodings if layer else ())
        if spec.name == "temperature"
    }
    return {**next(iter(specs.values())), "layers": list(specs)} if specs else None


def _settings(spec: EncodingSpec | None) -> dict[str, Any]:
    if spec is None:
        return {}
    known = dict(spec.settings)
    names = {"interleaved": "sections_interleaved", "clip": "left", "future": "right"}
    known = {names.get(name, name): value for name, value in known.items()}
    known = {name: list(x) if isinstance(x, tuple) else x for name, x in known.items()}
    return {name: x for name, x in known.items() if name not in ("heads", "dim", "head_dim")}


def _rotation(spec: EncodingSpec) -> dict[str, Any]:
    settings = spec.settings
    scaling = settings.get("scaling")
    stretched = scaling is not None and "factor" in scaling.settings
    turned = settings.get("rotary_dim", settings["dim"])
    if scaling is not None and scaling.name == "Proportional":
        turned = int(turned * scaling.settings["fraction"])
    return {
        "base": settings["base"],
        "rotary_dim": turned,
        "layout": settings.get("layout", "half"),
        "scaling": scaling and SCALINGS[scaling.name],
        "factor": pytest.approx(scaling.settings["factor"]) if stretched else None,
    }


def encoding(part: PartSpec, layer: LayerSpec) -> str:
    specs = [x for x in layer.encodings if x.name != "temperature"] or part.embeddings
    return NAMES[specs[0].name] if specs else "none"


@pytest.mark.parametrize("name", FACTS)
def test_a_published_file_says_what_its_paper_does(name: str) -> None:
    known = facts(name)
    spec = read(known["config"])
    part = spec.parts[known["facts"].get("part", next(iter(spec.parts)))]
    said = told(spec, part)
    if known["config"]["model_type"] == "deepseek_v4":
        said |= _compressed(part)
    asked = {key: value for key, value in known["facts"].items() if key not in ASIDE}
    assert {key: said.get(key) for key in asked} == asked


def _compressed(part: PartSpec) -> dict[str, Any]:
    """DeepSeek V4 has two rotations, of which neither is of layers that see everything."""
    kinds = {layer.rotary.settings["base"]: layer.rotary for layer in part.layers if layer}
    behind = kinds[max(kinds)]
    plain = EncodingSpec("rotary", {**behind.settings, "base": 10_000.0, "scaling": None})
    scaling = SCALINGS[behind.settings["scaling"].name]
    return {
        **_rotation(kinds.get(10_000.0, plain)),
        "compress_base": behind.settings["base"],
        "compress_scaling": scaling,
    }


@pytest.mark.parametrize("name", FACTS)
def test_nothing_of_positions_is_left_unread(name: str) -> None:
    known = facts(name)
    assert list(read(known["config"]).unread) == known["facts"].get("unread", [])


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


@pytest.mark.parametrize("name", FACTS)
def test_what_is_read_is_built_or_refused_by_name(name: str) -> None:
    spec = read(facts(name)["config"])
    specs = [x for part in spec.parts.values() for x in part.embeddings]
    specs += [x for _, _, layer in spec.attention() for x in layer.encodings]
    for encoding in {repr(x): x for x in specs}.values():
        beyond = set(encoding.settings) & BEYOND or encoding.name in BEYOND
        scaling = encoding.settings.get("scaling")
        if beyond or (scaling is not None and scaling.name in BEYOND):
            with pytest.raises(pe.UnsupportedError):
                encoding.build()
        else:
            built = encoding.build()
            assert isinstance(built, pe.Encoding)
            _same_settings(built, encoding)


def _same_settings(built: pe.Encoding, spec: EncodingSpec) -> None:
    for setting, value in spec.settings.items():
        if setting != "scaling" and value is not None:
            assert getattr(built, setting) == value


def test_an_encoding_is_built_of_what_was_read() -> None:
    rope = read(facts("llama-3.1-8b")["config"]).layers[0].rotary.build()
    expected = pe.Rotary(128, 500_000.0, scaling=pe.Llama3(8.0, 1.0, 4.0, 8192))
    assert rope.settings() == expected.settings()
