"""Which published model uses what: tables of what is read of their configurations."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evidence_tables import markdown
from published_models_texts import TEXTS

import posenc
from posenc.models.doctor.described import beside
from posenc.models.read import read
from posenc.models.spec import EncodingSpec, LayerSpec, ModelSpec, PartSpec, ScalingSpec
from posenc.words import Words

FACTS = Path(__file__).parent.parent / "tests" / "models" / "facts"
GROUPS = ("differ", "latent", "stretched", "rotary", "images", "bias", "vectors", "patches")
HEADS = ("model", "type", "layers", "positions", "sees", "heads", "tokens", "besides", "file")
# Where more would fill the page.
_MOST_NAMES = 12
_BIASES = frozenset({"alibi", "t5", "deberta", "transformer_xl", "shaw", "swin", "log_cpb"})


@dataclass(frozen=True)
class Published:
    """A published file: the name of its fact, the checkpoint, the address, what it says."""

    fact: str
    checkpoint: str
    source: str
    spec: ModelSpec


def published() -> list[Published]:
    """All of them, by the name of the checkpoint."""
    found = []
    for path in FACTS.glob("*.json"):
        told = json.loads(path.read_text("utf-8"))
        spec = read(told["config"])
        found.append(Published(path.stem, told["checkpoint"], told["source"], spec))
    return sorted(found, key=lambda model: (model.checkpoint.casefold(), model.fact))


def page(models: list[Published], language: str) -> str:
    """The page of all models: a table for each group, and one for their other parts."""
    say = Words(language, TEXTS)
    parts = [say("page", files=len(models))]
    for group in GROUPS:
        own = [model for model in models if grouped(model.spec.main) == group]
        lines = [line for model in own for line in _lines(model, model.spec.main, say)]
        parts.append(_table(group, lines, say))
    lines = [
        line
        for model in models
        for part in list(model.spec.parts.values())[1:]
        for line in _lines(model, part, say)
    ]
    parts.append(_table("towers", lines, say))
    return "\n".join(parts)


def users(name: str, models: list[Published], language: str) -> str:
    """The section of an encoding's page that says who uses it; nothing where nobody does."""
    say = Words(language, TEXTS)
    using = [model for model in models if name in _names(model.spec)]
    if not using:
        return ""
    names = [f"[{model.checkpoint}]({model.source})" for model in using]
    told = say.listed(names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:
        comma = ", " if language == "en" else "、"
        told = say("more", names=comma.join(names[:_MOST_NAMES]), count=len(names) - _MOST_NAMES)
    return say("used", names=told)


def _names(spec: ModelSpec) -> set[str]:
    """Encodings of all its parts."""
    names = {one.name for part in spec.parts.values() for one in part.embeddings}
    for _, _, layer in spec.attention():
        names |= {one.name for one in layer.encodings}
        given = {"sliding_window": layer.window, "chunked": layer.chunk}
        names |= {name for name, width in given.items() if width is not None}
        names |= {"sink_logits"} if layer.sink_logits else set()
    return names


def grouped(part: PartSpec) -> str:
    """The table that a part stands in, one of GROUPS."""
    layers = [layer for layer, _ in kinds(part)]
    rotary = [layer.rotary for layer in layers if layer.rotary is not None]
    names = {one.name for layer in layers for one in layer.encodings}
    if names & _BIASES:
        return "bias"
    if part.embeddings or not rotary:
        return "vectors"
    if any(one.name == "axial" for one in rotary):
        return "patches"
    if any(one.name == "mrope" for one in rotary):
        return "images"
    if any("start" in one.settings for one in rotary):
        return "latent"
    if len(layers) > 1:
        return "differ"
    return (
        "stretched" if rotary[0].settings.get("scaling") or rotary[0].name != "rotary" else "rotary"
    )


def kinds(part: PartSpec) -> list[tuple[LayerSpec, int]]:
    """How many layers there are of each kind, whatever their values came from."""
    found: list[tuple[LayerSpec, int]] = []
    for layer in part.layers:
        if layer is None:
            continue
        kind = replace(layer, sources={})
        place = next((i for i, (one, _) in enumerate(found) if one == kind), None)
        if place is None:
            found.append((kind, 1))
        else:
            found[place] = (kind, found[place][1] + 1)
    return found


def _lines(model: Published, part: PartSpec, say: Words) -> Iterator[list[str]]:
    for layer, some in kinds(part):
        count = len(part.layers)
        how_many = say("all_layers", count=count)
        if some < count:
            how_many = say("some_layers", some=some, count=count)
        specs = [*part.embeddings, *layer.encodings]
        length = part.trained_length
        yield [
            f"[{model.checkpoint}]({model.source})",
            f"`{model.spec.model_type}`",
            how_many,
            say("next").join(_positions(one, say) for one in specs) or say("none"),
            _sees(layer, say),
            say("heads", heads=layer.heads, key_heads=layer.key_heads, dim=layer.head_dim),
            "-" if length is None else str(length),
            say("next").join(_besides(layer, say)) or "-",
            f"`{model.fact}`",
        ]


def _positions(spec: EncodingSpec, say: Words) -> str:
    known = spec.name in posenc.encodings()
    name = f"[{spec.name}](catalogue/{spec.name}.md)" if known else spec.name
    return say("comma").join([name, *_settings(spec.settings, say)])


def _settings(settings: Mapping[str, Any], say: Words) -> Iterator[str]:
    """What is worth a word of an encoding's settings."""
    get = settings.get
    if "base" in settings:
        yield say("base", base=f"{get('base'):g}")
    if "start" in settings:
        yield say("last", turned=get("rotary_dim"), dim=get("dim"), start=get("start"))
    elif "rotary_dim" in settings:
        yield say("turn", turned=get("rotary_dim"), dim=get("dim"))
    if "layout" in settings and "base" in settings:
        yield str(get("layout"))
    if "sections" in settings:
        yield say("sections", sections="/".join(map(str, settings["sections"])))
        if get("interleaved"):
            yield say("interleaved")
    if "chunk" in settings:
        yield say("chunks_of", chunk=get("chunk"), local=get("local"))
    if isinstance(scaling := get("scaling"), ScalingSpec):
        yield _scaling(scaling, say)
    if "max_length" in settings:
        yield say("rows", rows=get("max_length"))
    if "buckets" in settings and "max_distance" in settings:
        yield say("buckets", buckets=get("buckets"), distance=get("max_distance"))
    if "kind" in settings:
        yield say("temperature", kind=get("kind"), length=get("original_length"))


def _scaling(scaling: ScalingSpec, say: Words) -> str:
    told, factor = scaling.name, scaling.settings.get("factor")
    if factor is not None:
        told = say("times", name=told, factor=f"{factor:g}")
    length = scaling.settings.get("original_length")
    return told if length is None else say("since", scaling=told, length=length)


def _sees(layer: LayerSpec, say: Words) -> str:
    if any(sentence.startswith("windows of") for sentence in layer.beyond):
        # Of patches: what they are stands in the column beside.
        return "-"
    if layer.window is not None:
        return say("window", width=layer.window)
    if layer.chunk is not None:
        return say("chunk", width=layer.chunk)
    return say("all" if layer.causal else "both")


def _besides(layer: LayerSpec, say: Words) -> Iterator[str]:
    if layer.sink_logits:
        yield say("sinks")
    if abs(layer.scale * layer.head_dim**0.5 - 1) > 1e-9:
        yield say("scale", scale=f"{layer.scale:.4g}")
    for sentence in layer.beyond:
        yield beside(sentence, say.column)


def _table(group: str, lines: list[list[str]], say: Words) -> str:
    heads = [say(f"head_{name}") for name in HEADS]
    return f"\n## {say(group)}\n{markdown(heads, lines)}\n"
