"""inspect.html, drawn from what inspect.json holds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc.inspection.sections import attention, pairs, scores, shifts, table_of_positions
from posenc.report import page as report_page
from posenc.report.markup import Child, Markup, facts, tag, text
from posenc.report.numbers import count


def write_page(out: Path, data: Mapping[str, Any]) -> Path:
    """Write inspect.html whole or not at all; `data` is what inspect.json holds."""
    return report_page.write_page(
        out / "inspect.html",
        command="posenc inspect",
        headline=name(data),
        body=body(data),
        folder="posenc.inspection",
        style=".figures + ul { margin-top: 1.5rem; }\n",
    )


def name(data: Mapping[str, Any]) -> str:
    """What the model is called: its folder, or its file."""
    return Path(data["source"]).resolve().name


def body(data: Mapping[str, Any]) -> Markup:
    """Everything inside `<main>` but how to read it."""
    parts: list[Child] = [
        _top(data),
        table_of_positions(data["table"]),
        scores(data["layers"]),
        attention(data["layers"]),
        pairs(data["layers"], data["model"]["trained_length"], data["text"]["tokens"]),
        shifts(**data["shifts"]),
        _what_was_run(data),
    ]
    return Markup("\n".join(part for part in map(text, parts) if part))


def _top(data: Mapping[str, Any]) -> Child:
    model, read = data["model"], data["text"]
    kicker = ["posenc inspect", model["type"], count(model["layers"], "layer")]
    kicker.append(f"{read['tokens']} tokens")
    return tag(
        "header",
        tag("p", " \N{MIDDLE DOT} ".join(kicker), class_="kicker"),
        tag("h1", f"What positions do in {name(data)}"),
        tag("ul", [tag("li", sentence) for sentence in data["summary"]], class_="verdict"),
    )


def _what_was_run(data: Mapping[str, Any]) -> Child:
    model, read = data["model"], data["text"]
    encodings = dict.fromkeys(layer["encoding"] for layer in data["layers"])
    trained = model["trained_length"]
    pairs = {
        "Model": f"{data['source']}, {model['class']}",
        "Layers looked at": _numbers([layer["layer"] for layer in data["layers"]]),
        "Added to embeddings": ", ".join(model["embeddings"]) or "nothing",
        "In attention": "; ".join(x or "no rotation" for x in encodings) or "not looked at",
        "Trained length": f"{trained:,} tokens" if trained else "not told",
        "Text": f"{read['source']}: {read['tokens']} tokens, turned round {read['texts']} times",
    }
    notes = [
        tag("p", f"Layer {layer['layer']}: {note}.")
        for layer in data["layers"]
        for note in layer["notes"]
    ]
    command = tag("code", data["command"], class_="command")
    return [tag("h2", "What was looked at"), facts(pairs), *notes, command]


def _numbers(layers: list[int]) -> str:
    if not layers:
        return "none"
    whole = layers == list(range(layers[0], layers[-1] + 1)) and len(layers) > 2
    return f"{layers[0]} to {layers[-1]}" if whole else ", ".join(map(str, layers))
