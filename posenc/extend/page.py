"""The sections of report.html, drawn from what report.json holds."""

from typing import Any

from posenc.extend import curves
from posenc.extend.page_tables import (
    methods_table,
    passkey_table,
    targets_table,
    training_table,
)
from posenc.lab import figures
from posenc.lab.curves import described
from posenc.report import marks
from posenc.report.markup import Child, Markup, facts, small, table, tag, text
from posenc.report.numbers import count
from posenc.report.words import SHARED
from posenc.words import Words

Data = dict[str, Any]
SAY = Words("en", SHARED)


def page(data: Data) -> Markup:
    """Everything inside `<main>`."""
    parts: list[Child] = [marks.swatches(len(curves.names(data))), _top(data)]
    if any(one["targets"] or one["short"] for one in data["methods"].values()):
        parts.append(methods_table(data))
    parts += [_pictures(data), targets_table(data), passkey_table(data)]
    parts.append(training_table(data))
    parts += [_without_result(data), _what_was_run(data)]
    return Markup("\n".join(part for part in map(text, parts) if part))


def _top(data: Data) -> Child:
    said = [
        "posenc extend",
        data["model"]["model_type"],
        f"trained at {data['trained']:,} tokens, read to {max(data['to']):,}",
    ]
    headline, *rest = data["verdict"]["sentences"]
    parts: list[Child] = [
        tag("p", " \N{MIDDLE DOT} ".join(said), class_="kicker"),
        tag("h1", headline),
        tag("ul", [tag("li", line) for line in rest], class_="verdict") if rest else None,
        small(_basis(data)),
    ]
    return tag("header", parts)


def _basis(data: Data) -> str:
    spans, needles = count(data["spans"], "span"), count(data["needles"], "passkey")
    said = (
        f"Decided from the last {data['scored']:,} tokens of {spans} of text, which every length "
        "and method scores, and of which only the text before them grows. Differences are taken "
        f"span by span, and hold together at {data['level']:.0%} (Student's t). That is little, as "
        "much as a few cores can do: what is called a tie may be none where more is read (--spans)."
    )
    if any(one["passkey"] for one in data["methods"].values()):
        said += f" {needles} hidden at each depth and length (--needles)."
    if data["done"] < data["planned"]:
        said += (
            f" {data['done']} of {data['planned']} cells are finished: the rest is missing here."
        )
    return said


def _pictures(data: Data) -> Child:
    contexts, positions = curves.by_context(data), curves.by_position(data)
    shown: list[Child] = []
    if any(len(curve.finite) > 1 for curve in contexts):
        lengths = sorted({int(x) for curve in contexts for x in curve.x})
        picture = figures.by_length(
            contexts,
            data["trained"],
            lengths,
            described(contexts, "Loss in nats per token against tokens read.", SAY),
            mark=f"trained at {data['trained']}",
            axis="length of the text read, in tokens",
            highest=curves.highest(contexts),
        )
        caption = (
            f"Every length scores the same {data['scored']:,} tokens. A line that falls past the "
            "trained length makes use of the text that it could not read before."
        )
        shown.append(_figure("Fixed targets, nats per token", picture, caption))
    if any(len(curve.finite) > 1 for curve in positions):
        picture = figures.by_position(
            positions,
            data["trained"],
            described(
                positions, "Loss in nats per token against position in the longest window.", SAY
            ),
            mark=f"trained to {data['trained']}",
            axis="position in the window, in tokens",
            highest=curves.highest(positions),
        )
        caption = (
            f"Every token of windows of {max(data['to']):,}, by where it stands. Ups and downs "
            "that the lines share are the text's."
        )
        shown.append(_figure("By position, nats per token", picture, caption))
    if not shown:
        return None
    note = (
        "Lines are means over spans, dots single spans. The shaded part lies past the trained "
        "length. An arrow marks a line that leaves the picture; the tables have its numbers."
    )
    return [tag("h2", "Loss"), tag("div", shown, class_="figures"), small(note)]


def _figure(title: str, picture: Markup, caption: str) -> Markup:
    return tag("figure", tag("h3", title), picture, tag("figcaption", caption))


def _without_result(data: Data) -> Child:
    reasons = {**data["unavailable"], **data["failed"]}
    if not reasons:
        return None
    rows = [
        tag("tr", tag("th", name, scope="row"), tag("td", reason, class_="words"))
        for name, reason in reasons.items()
    ]
    return [
        tag("h2", "Without a result"),
        table(["What", "Reason"], rows, "Without a result", words=(1,)),
    ]


def _what_was_run(data: Data) -> Child:
    machine, model, read = data["machine"], data["model"], data["text"]
    known = {
        "model": f"{model['path']}, {model['parameters']:,} parameters, sha256 {model['sha256']}",
        "text": f"{read['source']}, {read['bytes']:,} bytes, sha256 {read['sha256']}",
        "spans, passkeys": f"{data['spans']}, {data['needles']} (seed {data['seed']})",
        "cells": f"{data['done']} of {data['planned']} done",
        "machine": f"{machine['cpu']}, {machine['cores']} cores, "
        f"{count(machine['threads'], 'thread')}, {machine['system']}",
        "versions": f"posenc {machine['posenc']}, torch {machine['torch']}, "
        f"Python {machine['python']}",
    }
    built = {name: tag("code", one["encoding"]) for name, one in data["methods"].items()}
    return [
        tag("h2", "What was run"),
        tag("p", "This command repeats it; cells that are done are not repeated."),
        tag("code", data["command"], class_="command"),
        facts(known),
        tag("h3", "The methods, as they were set"),
        facts(built),
    ]
