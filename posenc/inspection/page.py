"""inspect.html, drawn from what inspect.json holds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc.inspection.sections import attention, pairs, scores, shifts, table_of_positions
from posenc.inspection.sentences import sentences
from posenc.inspection.words import TEXTS
from posenc.inspection.words.sentences import PHRASES
from posenc.report import page as report_page
from posenc.report.known import known
from posenc.report.markup import Child, Markup, facts, tag, text
from posenc.words import Language, Words


def write_page(out: Path, data: Mapping[str, Any], language: Language = "en") -> Path:
    """Write inspect.html whole or not at all; `data` is what inspect.json holds."""
    return report_page.write_page(
        out / "inspect.html",
        command="posenc inspect",
        headline=name(data),
        body=body(data, Words(language, TEXTS)),
        folder="posenc.inspection",
        style=".figures + ul { margin-top: 1.5rem; }\n",
        language=language,
    )


def name(data: Mapping[str, Any]) -> str:
    """What the model is called: its folder, or its file."""
    return Path(data["source"]).resolve().name


def body(data: Mapping[str, Any], say: Words) -> Markup:
    """Everything inside `<main>` but how to read it."""
    trained, tokens = data["model"]["trained_length"], data["text"]["tokens"]
    parts: list[Child] = [
        _top(data, say),
        table_of_positions(data["table"], say),
        scores(data["layers"], say),
        attention(data["layers"], say),
        pairs(data["layers"], trained, tokens, say),
        shifts(**data["shifts"], say=say),
        _what_was_run(data, say),
    ]
    return Markup("\n".join(part for part in map(text, parts) if part))


def _top(data: Mapping[str, Any], say: Words) -> Child:
    model = data["model"]
    kicker = ["posenc inspect", model["type"], say("layers", layers=model["layers"])]
    kicker.append(say("tokens", tokens=data["text"]["tokens"]))
    return tag(
        "header",
        tag("p", " \N{MIDDLE DOT} ".join(kicker), class_="kicker"),
        tag("h1", say("headline", name=name(data))),
        tag("ul", [tag("li", sentence) for sentence in sentences(data, say)], class_="verdict"),
    )


def _what_was_run(data: Mapping[str, Any], say: Words) -> Child:
    model, read, series = data["model"], data["text"], say("series")
    encodings = dict.fromkeys(layer["encoding"] for layer in data["layers"])
    rotations = (x or say("no_rotation") for x in encodings)
    trained, source = model["trained_length"], known(read["source"], PHRASES, say)
    values = {
        "model": say("comma").join((data["source"], model["class"])),
        "layers": _numbers([layer["layer"] for layer in data["layers"]], say),
        "embeddings": series.join(model["embeddings"]) or say("nothing_added"),
        "attention": say("semicolon").join(rotations) or say("not_seen"),
        "trained": say("tokens", tokens=trained) if trained else say("not_told"),
        "text": say("read", **read | {"source": source}),
    }
    notes = [
        tag("p", say("layer_note", layer=layer["layer"], note=known(note, PHRASES, say)))
        for layer in data["layers"]
        for note in layer["notes"]
    ]
    told = facts({say(f"key_{key}"): value for key, value in values.items()})
    return [tag("h2", say("what")), told, *notes, tag("code", data["command"], class_="command")]


def _numbers(layers: list[int], say: Words) -> str:
    if not layers:
        return say("no_layers")
    whole = layers == list(range(layers[0], layers[-1] + 1)) and len(layers) > 2
    ends = {"low": layers[0], "high": layers[-1]}
    return say("range", **ends) if whole else say("series").join(map(str, layers))
