"""The sections of report.html, drawn from what report.json holds."""

from typing import Any

from posenc.extend import curves
from posenc.extend.page_tables import (
    methods_table,
    passkey_table,
    targets_table,
    training_table,
)
from posenc.extend.sentences import called, sentences
from posenc.extend.words.page import PHRASES
from posenc.lab import figures
from posenc.lab.curves import described
from posenc.report import marks
from posenc.report.known import known
from posenc.report.markup import Child, Markup, facts, figure, small, table, tag, text
from posenc.words import Words

Data = dict[str, Any]


def page(data: Data, say: Words) -> Markup:
    """Everything inside `<main>`."""
    parts: list[Child] = [marks.swatches(len(curves.names(data))), _top(data, say)]
    if any(one["targets"] or one["short"] for one in data["methods"].values()):
        parts.append(methods_table(data, say))
    parts += [_pictures(data, say), targets_table(data, say), passkey_table(data, say)]
    parts += [training_table(data, say), _without_result(data, say), _what_was_run(data, say)]
    return Markup("\n".join(part for part in map(text, parts) if part))


def _top(data: Data, say: Words) -> Child:
    lengths = say("kicker", trained=data["trained"], longest=max(data["to"]))
    said = ["posenc extend", data["model"]["model_type"], lengths]
    headline, *rest = sentences(data, data["verdict"], say)
    parts: list[Child] = [
        tag("p", " \N{MIDDLE DOT} ".join(said), class_="kicker"),
        tag("h1", headline),
        tag("ul", [tag("li", line) for line in rest], class_="verdict") if rest else None,
        small(_basis(data, say)),
    ]
    return tag("header", parts)


def _basis(data: Data, say: Words) -> str:
    said = say("basis", scored=data["scored"], spans=data["spans"], level=data["level"])
    if any(one["passkey"] for one in data["methods"].values()):
        said += say("basis_needles", needles=data["needles"])
    if data["done"] < data["planned"]:
        said += say("basis_missing", done=data["done"], planned=data["planned"])
    return said


def _pictures(data: Data, say: Words) -> Child:
    contexts, positions = curves.by_context(data, say), curves.by_position(data, say)
    trained, longest = data["trained"], max(data["to"])
    shown: list[Child] = []
    if any(len(curve.finite) > 1 for curve in contexts):
        lengths = sorted({int(x) for curve in contexts for x in curve.x})
        picture = figures.by_length(
            contexts,
            trained,
            lengths,
            described(contexts, say("alt_context"), say),
            mark=say("trained_at", trained=trained),
            axis=say("axis_context"),
            highest=curves.highest(contexts),
        )
        caption = say("caption_context", scored=data["scored"])
        shown.append(figure(say("title_context"), picture, caption))
    if any(len(curve.finite) > 1 for curve in positions):
        picture = figures.by_position(
            positions,
            trained,
            described(positions, say("alt_position"), say),
            mark=say("trained_to", trained=trained),
            axis=say("axis_position"),
            highest=curves.highest(positions),
        )
        caption = say("caption_position", longest=longest)
        shown.append(figure(say("title_position"), picture, caption))
    if not shown:
        return None
    return [tag("h2", say("loss")), tag("div", shown, class_="figures"), small(say("lines"))]


def _without_result(data: Data, say: Words) -> Child:
    reasons = {**data["unavailable"], **data["failed"]}
    if not reasons:
        return None
    rows = [
        tag(
            "tr",
            tag("th", called(name, say), scope="row"),
            tag("td", known(reason, PHRASES, say), class_="words"),
        )
        for name, reason in reasons.items()
    ]
    title, heads = say("without_result"), [say("what"), say("reason")]
    return [tag("h2", title), table(heads, rows, title, words=(1,))]


def _what_was_run(data: Data, say: Words) -> Child:
    machine, read = data["machine"], data["text"]
    versions = f"posenc {machine['posenc']}, torch {machine['torch']}, Python {machine['python']}"
    values = {
        "model": say("value_model", **data["model"]),
        "text": say("value_text", **read | {"source": known(read["source"], PHRASES, say)}),
        "spans": say("value_spans", **{x: data[x] for x in ("spans", "needles", "seed")}),
        "cells": say("value_cells", done=data["done"], planned=data["planned"]),
        "machine": say("value_machine", **machine),
        "versions": versions,
    }
    built = {
        called(name, say): tag("code", one["encoding"]) for name, one in data["methods"].items()
    }
    return [
        tag("h2", say("what_was_run")),
        tag("p", say("repeats")),
        tag("code", data["command"], class_="command"),
        facts({say(f"key_{key}"): value for key, value in values.items()}),
        tag("h3", say("as_set")),
        facts(built),
    ]
