"""The sections of inspect.html, each None where there is nothing to show."""

from collections.abc import Mapping, Sequence
from typing import Any

from posenc.inspection.heads import ATTENTION, NEXT, SPLIT, STAYS, Measure
from posenc.inspection.pictures import (
    Line,
    Ticks,
    colour_limit,
    lines_picture,
    number_map,
    points_picture,
)
from posenc.inspection.sentences import percent, state
from posenc.inspection.shifts import ROUNDING
from posenc.report.markup import Child, Markup, figure, small, table, tag
from posenc.report.numbers import DASH, number
from posenc.words import Words

Layers = Sequence[Mapping[str, Any]]


def table_of_positions(data: Mapping[str, Any] | None, say: Words) -> Child:
    """The learned table: its numbers, how rows resemble each other, which were trained."""
    if data is None:
        return None
    rows = Ticks(say("row"), data["shown_rows"])
    columns = Ticks(say("column"), data["shown_columns"])
    share = data["components"]["share"]
    points = [(row[0], row[1]) for row in data["components"]["coordinates"]] if share[1:] else []
    thinned = len(rows.numbers) < data["rows"] or len(columns.numbers) < data["columns"]
    x, y = (say("component", number=number) for number in (1, 2))
    ends = (say("first_row"), say("last_row"))
    explained = [percent(part) for part in share[:2]]
    norms = [Line("norm", list(enumerate(data["norm"])))]
    highest = 1.15 * colour_limit([data["norm"]])
    shown = [
        figure(
            say("title_values"),
            number_map(data["values"], rows, columns, say("alt_values")),
            say("caption_values") + (say("thinned") if thinned else ""),
        ),
        figure(
            say("title_cosines"),
            number_map(data["cosines"], rows, rows, say("alt_cosines"), limit=1.0),
            say("caption_cosines"),
        ),
        figure(
            say("title_norms"),
            lines_picture(norms, say("row"), say("alt_norms"), top=highest),
            say("caption_norms"),
        ),
        figure(
            say("title_components"),
            points_picture(points, x, y, say("alt_components"), ends=ends),
            say("caption_components", shares=explained),
        )
        if points
        else None,
    ]
    return [tag("h2", say("table")), tag("div", shown, class_="figures"), _rows(data, say)]


def _rows(data: Mapping[str, Any], say: Words) -> Child:
    told = [state(name, runs, say) for name, runs in data["states"].items()]
    states = [tag("li", say("sentence", text=text[0].upper() + text[1:])) for text in told]
    drawn = data["deviation"]
    note = say("not_drawn") if drawn is None else say("drawn", deviation=drawn)
    return [tag("ul", states), small(note)]


def scores(layers: Layers, say: Words) -> Child:
    """What scores are made of, by layer and head."""
    shown = [
        *_maps(layers, STAYS[:2], say, say("caption_stays")),
        *_maps(layers, SPLIT[1:], say, say("caption_split")),
    ]
    if not shown:
        return None
    return [
        tag("h2", say("scores")),
        tag("div", shown, class_="figures"),
        small(say("scores_note")),
        _by_layer(layers, (*STAYS, *SPLIT), say("scores_by_layer"), say),
    ]


def attention(layers: Layers, say: Words) -> Child:
    """Where heads look."""
    measured = [layer for layer in layers if layer["attention"]]
    if not measured:
        return None
    sides = any(any(layer["attention"]["next"]) for layer in measured)
    measures = [measure for measure in ATTENTION if sides or measure is not NEXT]
    shown = [*_maps(layers, measures, say), _mass(measured, say)]
    return [
        tag("h2", say("attention")),
        tag("div", shown, class_="figures"),
        small(say("attention_note")),
        _by_layer(layers, measures, say("attention_by_layer"), say),
    ]


def _mass(layers: Layers, say: Words) -> Markup:
    step = max(-(-len(layers) // 5), 1)
    lines = [
        Line(
            say("layer_of", layer=layer["layer"]),
            # A share that only rounding left is none.
            [(d, x if x > 1e-7 else None) for d, x in enumerate(layer["attention"]["mass"]) if d],
        )
        for layer in layers[::step]
    ]
    return figure(
        say("title_mass"),
        lines_picture(lines, say("axis_mass"), say("alt_mass"), log_x=True, log_y=True),
        say("caption_mass"),
    )


def pairs(layers: Layers, trained: int | None, tokens: int, say: Words) -> Child:
    """Which rotary pairs queries and keys use."""
    turning = [layer for layer in layers if layer["pairs"]]
    if not turning:
        return None
    first = turning[0]["pairs"]["wavelength"]
    same = [layer for layer in turning if layer["pairs"]["wavelength"] == first]
    columns = Ticks(say("pair"), range(max(len(layer["pairs"]["product"]) for layer in turning)))
    rows = Ticks(say("layer"), [layer["layer"] for layer in turning])
    parts = [[x / sum(p["product"]) for x in p["product"]] for p in _of(turning)]
    width = len(columns.numbers)
    padded = [row + [None] * (width - len(row)) for row in parts]
    means = {
        name: [sum(x) / len(same) for x in zip(*(p[name] for p in _of(same)), strict=True)]
        for name in ("q", "k", "product")
    }
    lines = [
        Line(name, [(w, x) for w, x in zip(first, means[key], strict=True) if w is not None])
        for name, key in (("|q|", "q"), ("|k|", "k"))
    ]
    marks = [(float(tokens), say("mark_text"))]
    marks += [(float(trained), say("mark_trained"))] if trained else []
    axis, alt = say("axis_wavelength"), say("alt_wavelength")
    shown = [
        figure(
            say("title_product"),
            number_map(padded, rows, columns, say("alt_product"), percent=True),
            say("caption_product"),
        ),
        figure(
            say("title_wavelength"),
            lines_picture(lines, axis, alt, log_x=True, marks=marks),
            say("caption_wavelength"),
        ),
    ]
    cells = [
        tag(
            "tr",
            tag("th", str(n), scope="row"),
            tag("td", DASH if w is None else f"{w:,.4g}" if w < 1000 else f"{w:,.0f}"),
            [tag("td", number(means[name][n])) for name in means],
        )
        for n, w in enumerate(first)
    ]
    heads = [say("head_pair"), say("head_wavelength"), "|q|", "|k|", "|q| |k|"]
    return [
        tag("h2", say("pairs")),
        tag("div", shown, class_="figures"),
        small(say("pairs_note") + _of_some(turning, same, say)),
        table(heads, cells, say("pairs")),
    ]


def _of_some(turning: Layers, same: Layers, say: Words) -> str:
    """That means are of the layers which turn as the first does, where others turn otherwise."""
    if len(same) == len(turning):
        return ""
    first = str(turning[0]["layer"])
    return say("pairs_of_some", first=first, same=len(same), layers=len(turning))


def shifts(compared: str, changes: Sequence[Mapping[str, Any]], say: Words) -> Child:
    """What a shift of all positions changes."""
    if not changes:
        return None
    rows = [
        tag(
            "tr",
            tag("th", f"+{one['shift']:,}", scope="row"),
            tag("td", _verdict(one["relative"], say), class_="words"),
            tag("td", f"{one['largest']:.2g}"),
            tag("td", f"{one['mean']:.2g}"),
            tag("td", percent(one["relative"])),
        )
        for one in changes
    ]
    changed = [say(f"head_{key}") for key in ("largest", "mean", "relative")]
    heads = [say("head_shift"), "", *changed]
    return [
        tag("h2", say("shifts")),
        table(heads, rows, say("shifts_label"), words=(1,)),
        small(say("shifts_note", compared=say(compared))),
    ]


def _verdict(relative: float, say: Words) -> Markup:
    word, kind = ("rounding", "good") if relative < ROUNDING else ("changes", "fair")
    return tag("span", say(word), class_=f"chip {kind}")


def _maps(
    layers: Layers, measures: Sequence[Measure], say: Words, caption: str | None = None
) -> list[Markup]:
    """A map of layers and heads for each measure that there are numbers of."""
    shown = []
    for measure in measures:
        found = [(layer["layer"], measure.of(layer)) for layer in layers]
        known = [(layer, heads) for layer, heads in found if heads is not None]
        if not known:
            continue
        width = max(len(heads) for _, heads in known)
        values = [heads + [None] * (width - len(heads)) for _, heads in known]
        rows = Ticks(say("layer"), [layer for layer, _ in known])
        columns, title = Ticks(say("head"), range(width)), say(measure.key)
        alt = say("by_layer_and_head", title=title)
        picture = number_map(values, rows, columns, alt, percent=measure.share)
        shown.append(figure(title, picture, caption))
    return shown


def _by_layer(layers: Layers, measures: Sequence[Measure], label: str, say: Words) -> Markup:
    chosen = [measure for measure in measures if measure.mean(layers) is not None]
    rows = [
        tag(
            "tr",
            tag("th", say("row_layer", layer=layer["layer"]), scope="row"),
            [tag("td", shown(measure, measure.mean([layer]))) for measure in chosen],
        )
        for layer in layers
    ]
    heads = [say("mean_over_heads"), *(say(measure.key) for measure in chosen)]
    return table(heads, rows, label)


def shown(measure: Measure, value: float | None) -> str:
    """A number of this measure as people read it."""
    return number(value, 1) if value is None or not measure.share else percent(value)


def _of(layers: Layers) -> list[Mapping[str, Any]]:
    return [layer["pairs"] for layer in layers]
