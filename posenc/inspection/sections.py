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
from posenc.inspection.sentences import STATES, percent, ranges
from posenc.inspection.shifts import ROUNDING
from posenc.report.markup import Child, Markup, figure, small, table, tag
from posenc.report.numbers import DASH, listed, number

Layers = Sequence[Mapping[str, Any]]


def table_of_positions(data: Mapping[str, Any] | None) -> Child:
    """The learned table: its numbers, how rows resemble each other, which were trained."""
    if data is None:
        return None
    rows = Ticks("row", data["shown_rows"])
    columns = Ticks("column", data["shown_columns"])
    share = data["components"]["share"]
    points = [(row[0], row[1]) for row in data["components"]["coordinates"]] if share[1:] else []
    thinned = len(rows.numbers) < data["rows"] or len(columns.numbers) < data["columns"]
    shown = [
        figure(
            "The table",
            number_map(data["values"], rows, columns, "The numbers of the table."),
            f"Colours are made for 98% of the numbers; larger ones have the last colour."
            f"{' Some rows and columns of all.' if thinned else ''}",
        ),
        figure(
            "Cosine of each row with each",
            number_map(data["cosines"], rows, rows, "Cosines of pairs of rows.", limit=1.0),
            "A band along the diagonal: neighbours are alike. A block: rows that were trained "
            "together. Noise all over: rows that nothing put in order.",
        ),
        figure(
            "Length of each row",
            lines_picture(
                [Line("norm", list(enumerate(data["norm"])))],
                "row",
                "Norms of rows.",
                top=1.15 * colour_limit([data["norm"]]),
            ),
            "Rows that are much longer than all others leave the picture. A step is where training "
            "stopped, or went on, at another length.",
        ),
        figure(
            "Principal components",
            points_picture(points, "component 1", "component 2", "Rows by two components."),
            f"Each row along the two directions in which rows differ most, which explain "
            f"{listed(map(percent, share[:2]))} of their variance. Near rows near each other: an "
            "order was learned; a ring: rows repeat with a wavelength.",
        )
        if points
        else None,
    ]
    return [tag("h2", "The table of positions"), tag("div", shown, class_="figures"), _rows(data)]


def _rows(data: Mapping[str, Any]) -> Child:
    states = [
        tag("li", f"{ranges(runs).capitalize()} {STATES.get(state, 'look trained')}.")
        for state, runs in data["states"].items()
    ]
    drawn = data["deviation"]
    told = (
        f"A row counts as drawn where it is as long as rows were at initialisation (standard "
        f"deviation {drawn:g}, by config.json) and like neither neighbour."
        if drawn is not None
        else "config.json does not say how rows were drawn, so that their length tells nothing."
    )
    return [tag("ul", states), small(told)]


def scores(layers: Layers) -> Child:
    """What scores are made of, by layer and head."""
    shown = [
        *_maps(layers, STAYS[:2], "Share of the scores' variance that stays whatever the text."),
        *_maps(layers, SPLIT[1:], "Share, with every pair of tokens at every distance."),
    ]
    if not shown:
        return None
    note = (
        "Whatever the text: the text is turned round, so that other tokens come to every place, "
        "and what stays of the scores is position's. Content and distance: every pair of tokens is "
        "put at every distance, which only encodings that act in attention allow."
    )
    return [
        tag("h2", "Scores: content and position"),
        tag("div", shown, class_="figures"),
        small(note),
        _by_layer(layers, (*STAYS, *SPLIT), "Scores by layer"),
    ]


def attention(layers: Layers) -> Child:
    """Where heads look."""
    measured = [layer for layer in layers if layer["attention"]]
    if not measured:
        return None
    sides = any(any(layer["attention"]["next"]) for layer in measured)
    measures = [measure for measure in ATTENTION if sides or measure is not NEXT]
    shown = [*_maps(layers, measures), _mass(measured)]
    note = (
        "Means over the queries behind the first token. The reach is the distance within which 90% "
        "of a head's attention lies; on the first 4 tokens: over the queries behind these."
    )
    return [
        tag("h2", "Attention: where heads look"),
        tag("div", shown, class_="figures"),
        small(note),
        _by_layer(layers, measures, "Attention by layer"),
    ]


def _mass(layers: Layers) -> Markup:
    step = max(-(-len(layers) // 5), 1)
    lines = [
        Line(
            f"layer {layer['layer']}",
            # A share that only rounding left is none.
            [(d, x if x > 1e-7 else None) for d, x in enumerate(layer["attention"]["mass"]) if d],
        )
        for layer in layers[::step]
    ]
    return figure(
        "Share of attention by distance",
        lines_picture(lines, "distance, tokens", "Attention by distance.", log_x=True, log_y=True),
        "Mean over heads; the token itself is left out. Sinks make a flat tail: every query is "
        "at another distance from the first tokens.",
    )


def pairs(layers: Layers, trained: int | None, tokens: int) -> Child:
    """Which rotary pairs queries and keys use."""
    turning = [layer for layer in layers if layer["pairs"]]
    if not turning:
        return None
    first = turning[0]["pairs"]["wavelength"]
    same = [layer for layer in turning if layer["pairs"]["wavelength"] == first]
    columns = Ticks("pair", range(max(len(layer["pairs"]["product"]) for layer in turning)))
    rows = Ticks("layer", [layer["layer"] for layer in turning])
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
    marks = [(float(tokens), "text")]
    marks += [(float(trained), "trained length")] if trained else []
    shown = [
        figure(
            "Share of |q| |k| by layer and pair",
            number_map(padded, rows, columns, "Products of norms by pair.", percent=True),
            "How much each pair can add to a score. Pair 0 turns fastest.",
        ),
        figure(
            "Norms by wavelength",
            lines_picture(lines, "wavelength, tokens", "Norms by pair.", log_x=True, marks=marks),
            "Means over layers. A pair right of the trained length never turned once in training.",
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
    heads = ["Pair", "Wavelength, tokens", "|q|", "|k|", "|q| |k|"]
    return [
        tag("h2", "Rotary pairs"),
        tag("div", shown, class_="figures"),
        small("2-norms of queries and keys in each pair before rotation, means over tokens."),
        table(heads, cells, "Rotary pairs"),
    ]


def shifts(compared: str, changes: Sequence[Mapping[str, Any]]) -> Child:
    """What a shift of all positions changes."""
    if not changes:
        return None
    rows = [
        tag(
            "tr",
            tag("th", f"+{one['shift']:,}", scope="row"),
            tag("td", _verdict(one["relative"]), class_="words"),
            tag("td", f"{one['largest']:.2g}"),
            tag("td", f"{one['mean']:.2g}"),
            tag("td", percent(one["relative"])),
        )
        for one in changes
    ]
    heads = ["All positions", "", "Largest change", "Mean change", "Mean, of the spread"]
    return [
        tag("h2", "Shifts of all positions"),
        table(heads, rows, "Shifts", words=(1,)),
        small(
            f"The same text at positions that are larger by so much; what changes in the "
            f"{compared}. A model that reads distances alone gives the same again."
        ),
    ]


def _verdict(relative: float) -> Markup:
    rounding = relative < ROUNDING
    kind = "good" if rounding else "fair"
    return tag("span", "rounding" if rounding else "changes", class_=f"chip {kind}")


def _maps(layers: Layers, measures: Sequence[Measure], caption: str | None = None) -> list[Markup]:
    """A map of layers and heads for each measure that there are numbers of."""
    shown = []
    for measure in measures:
        found = [(layer["layer"], measure.of(layer)) for layer in layers]
        known = [(layer, heads) for layer, heads in found if heads is not None]
        if not known:
            continue
        width = max(len(heads) for _, heads in known)
        values = [heads + [None] * (width - len(heads)) for _, heads in known]
        rows = Ticks("layer", [layer for layer, _ in known])
        alt = f"{measure.title}, by layer and head."
        picture = number_map(values, rows, Ticks("head", range(width)), alt, percent=measure.share)
        shown.append(figure(measure.title, picture, caption))
    return shown


def _by_layer(layers: Layers, measures: Sequence[Measure], label: str) -> Markup:
    chosen = [measure for measure in measures if measure.mean(layers) is not None]
    rows = [
        tag(
            "tr",
            tag("th", f"Layer {layer['layer']}", scope="row"),
            [tag("td", shown(measure, measure.mean([layer]))) for measure in chosen],
        )
        for layer in layers
    ]
    return table(["Mean over heads", *(measure.title for measure in chosen)], rows, label)


def shown(measure: Measure, value: float | None) -> str:
    """A number of this measure as people read it."""
    return number(value, 1) if value is None or not measure.share else percent(value)


def _of(layers: Layers) -> list[Mapping[str, Any]]:
    return [layer["pairs"] for layer in layers]
