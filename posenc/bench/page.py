"""bench.html: the table of figures, pictures, every case, and the machine."""

import statistics
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from posenc.bench.case import GROUPS
from posenc.bench.plots import Curve, log_log, picture_of, shown_length
from posenc.bench.result import Result
from posenc.bench.timing import Interval
from posenc.bench.verdict import Figure, Line, Verdict, figures, lines
from posenc.report import marks
from posenc.report import page as report_page
from posenc.report.markup import Child, Markup, facts, small, table, tag, text
from posenc.report.numbers import DASH, listed

CHIPS = {"met": "good", "not available": "open"}
TIMES = "\N{MULTIPLICATION SIGN}"


def write_page(out: Path, data: Mapping[str, Any], results: Sequence[Result]) -> Path:
    """Write bench.html whole or not at all; `data` is what bench.json holds of `results`."""
    style = resources.files("posenc.bench").joinpath("bench.css")
    return report_page.write_page(
        out / "bench.html",
        command="posenc bench",
        headline=data["headline"],
        body=body(data, results),
        folder="posenc.bench",
        style=style.read_text("utf-8"),
    )


def body(data: Mapping[str, Any], results: Sequence[Result]) -> Markup:
    """Everything inside `<main>` but how to read it."""
    styles = _styles(results)
    parts: list[Child] = [
        marks.swatches(len(styles)),
        _top(data),
        _figures_to_reach(lines(results)),
        _not_met(figures(results)),
        _pictures(results, styles),
    ]
    for group in dict.fromkeys(result.case.group for result in results):
        members = [result for result in results if result.case.group == group]
        parts += [tag("h2", GROUPS.get(group, group)), _cases(members)]
    parts += [_missing(results), _machine(data)]
    return Markup("\n".join(part for part in map(text, parts) if part))


def _styles(results: Sequence[Result]) -> dict[str, int]:
    """A colour and marker for each contestant but floors, the same on the whole page."""
    # Colours come again after eight, so those that meet in a picture are numbered first.
    ordered = sorted(results, key=lambda result: result.case.curve is None)
    names = dict.fromkeys(n for r in ordered for n in r.case.contestants if n != r.case.floor)
    return {name: style for style, name in enumerate(names)}


def _top(data: Mapping[str, Any]) -> Child:
    machine = data["machine"]
    kicker = ["posenc bench", machine["cpu"], f"{machine['threads']} threads", data["started"][:10]]
    said = [
        "Ratios are medians over rounds in which all contestants took turns, in one process per "
        "case; beside them, where the median lies 19 times of 20."
    ]
    if data["quick"]:
        said.append("A smoke run at tiny sizes (--quick): nothing here says how fast anything is.")
    if data["noise"]:
        said.append(data["noise"])
    if machine["gpu"] is None:
        said.append("Everything ran on the CPU: figures for GPUs are missing.")
    return tag(
        "header",
        tag("p", " \N{MIDDLE DOT} ".join(kicker), class_="kicker"),
        tag("h1", data["headline"]),
        tag("ul", [tag("li", sentence) for sentence in said], class_="verdict"),
    )


def _figures_to_reach(table_of: Sequence[Line]) -> Child:
    if not table_of:
        return None
    rows: list[Markup] = []
    row = None
    bases: dict[str, set[str]] = {}
    for line in table_of:
        bases.setdefault(line.goal.row, set()).add(_against(line))
    for line in table_of:
        if line.goal.row != row:
            row = line.goal.row
            base = f" {DASH} {_against(line)}" if len(bases[row]) == 1 else ""
            heading = tag("th", row, tag("span", base, class_="error"), colspan=5, scope="rowgroup")
            rows.append(tag("tr", heading, class_="group"))
        worst, beside = line.worst, line.worst_beside_peer
        cells: list[Child] = [
            tag("td", _shown(worst.found if worst else None, line.unit)),
            tag("td", f"{line.goal.reach:g}"),
            tag("td", _judged(line), class_="words"),
            tag("td", _beside_peer(beside), class_="words"),
        ]
        against = f" {_against(line)}" if len(bases[row]) > 1 else ""
        name = [line.goal.line, tag("span", against, class_="error") if against else None]
        rows.append(tag("tr", tag("th", name, scope="row"), cells))
    heads = ["", "Found", "At most", "", "Beside the best peer"]
    note = (
        "A line that stands for several encodings shows the worst of them. A line is met where no "
        "median is above the figure and no peer is faster; it is missed where one is above, and "
        "lost where a peer needs less. Beside what is missed stands, where that was measured, what "
        "the least takes that cannot be left out."
    )
    title = "Figures to reach"
    return [tag("h2", title), table(heads, rows, title, words=(3, 4)), small(note)]


def _not_met(every: Sequence[Figure]) -> Child:
    """The cases behind the lines that are missed or lost, one by one."""
    short = [figure for figure in every if figure.missed or figure.lost]
    if not short:
        return None
    rows: list[Markup] = []
    for figure in short:
        unit = figure.result.case.unit
        about = f" {figure.goal.who}, against {figure.goal.base}"
        heading = [figure.result.case.name, tag("span", about, class_="error")]
        cells: list[Child] = [
            tag("td", _shown(figure.found, unit)),
            tag("td", f"{figure.goal.reach:g}"),
            tag("td", [_chip(figure.verdict), _least(figure)], class_="words"),
            tag("td", _beside_peer(figure), class_="words"),
        ]
        rows.append(tag("tr", tag("th", heading, scope="row"), cells))
    heads = ["", "Found", "At most", "", "Beside the best peer"]
    title = "Cases that are missed or lost"
    return [tag("h2", title), table(heads, rows, title, words=(3, 4))]


def _against(line: Line) -> str:
    return f"{line.figures[0].result.case.beside} {line.goal.base}"


def _beside_peer(figure: Figure | None) -> Child:
    if figure is None or figure.peer is None:
        return DASH
    name, against = figure.peer
    case = figure.result.case
    digits = 2 if case.unit == "x" else 0
    return f"{against.median:,.{digits}f} {case.beside} {name}".replace("-", "\N{MINUS SIGN}", 1)


def _chip(verdict: Verdict) -> Markup:
    return tag("span", verdict, class_=f"chip {CHIPS.get(verdict, 'bad')}")


def _least(figure: Figure | None) -> Child:
    """What a figure that is missed cannot leave out."""
    if figure is None or figure.least is None:
        return None
    name, found = figure.least
    return f" {name}: {found.median:,.{2 if figure.result.case.unit == 'x' else 0}f}"


def _judged(line: Line) -> list[Child]:
    count, worst = len(line.figures), line.worst
    chip: list[Child] = [_chip(line.verdict), _least(worst)]
    if count > 1 and worst:
        same = len({figure.result.case.name for figure in line.figures}) == 1
        told = worst.goal.who if same else _encoding(worst.result.case.name)
        chip.append(f" worst of {count}: {told.removeprefix('posenc ')}")
    if line.lacking:
        chip.append(f" {len(line.lacking)} of {count} did not run")
    if line.noisy:
        chip += [" ", tag("span", "noisy", class_="chip fair")]
    return chip


def _encoding(case: str) -> str:
    """The encoding that the name of a case tells, or its shape."""
    _, _, rest = case.partition(", ")
    if rest.startswith("("):
        return f"{rest.partition(')')[0]})"
    return rest.partition(", ")[0] or case


def _shown(found: Interval | None, unit: str = "x") -> Child:
    if found is None:
        return DASH
    digits = 0 if unit == "MiB" or abs(found.median) >= 100 else 1 if found.median >= 10 else 2
    middle = f"{found.median:,.{digits}f}".replace("-", "\N{MINUS SIGN}")
    if found.low == found.high:
        return middle
    ends = f" {found.low:,.{digits}f} to {found.high:,.{digits}f}".replace("-", "\N{MINUS SIGN}")
    return [middle, tag("span", ends, class_="error")]


def _pictures(results: Sequence[Result], styles: Mapping[str, int]) -> Child:
    names = dict.fromkeys(r.case.curve for r in results if r.case.curve)
    shown = [picture for name in names if (picture := _picture(name, results, styles))]
    if not shown:
        return None
    return [tag("h2", "As the length grows"), tag("div", shown, class_="figures")]


def _picture(name: str, results: Sequence[Result], styles: Mapping[str, int]) -> Child:
    members = [result for result in results if result.case.curve == name]
    picture = picture_of(name)
    drawn: dict[str, list[tuple[float, float]]] = {}
    for result in members:
        floor = result.values.get(result.case.floor)
        for who, values in result.values.items() if floor else []:
            height = picture.height(statistics.median(values), statistics.median(floor or [1.0]),
                                    result.case.tokens)  # fmt: skip
            drawn.setdefault(who, []).append((result.case.tokens, height))
    if not drawn:
        return None
    floor_name = members[0].case.floor
    curves = [
        Curve(who, None if who == floor_name else styles[who], tuple(points))
        for who, points in drawn.items()
    ]
    alt = f"{picture.title}. " + " ".join(_described(curve) for curve in curves)
    return tag(
        "figure",
        tag("h3", picture.title),
        log_log(curves, picture.limit, alt),
        tag("figcaption", picture.caption),
    )


def _described(curve: Curve) -> str:
    points = ", ".join(f"{y:.3g} at {shown_length(x)}" for x, y in curve.points)
    return f"{curve.label}: {points}."


def _cases(results: Sequence[Result]) -> Child:
    """Every case against its floor: a table for cases of one kind, a column for a contestant."""
    kinds: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        kind = result.case.name.partition(", ")[0]
        kinds.setdefault((kind, result.case.floor), []).append(result)
    parts: list[Child] = []
    for (kind, floor), members in kinds.items():
        heading = f"{kind}, {members[0].case.beside} {floor}"
        found = dict.fromkeys(n for r in members for n in r.values if n != floor)
        rows = [_row(result, kind, list(found)) for result in members]
        parts += [tag("h3", heading), table(["", *found], rows, heading)]
    return parts


def _row(result: Result, kind: str, names: Sequence[str]) -> Markup:
    case = result.case
    cells = [tag("td", _shown(result.against(name, case.floor), case.unit)) for name in names]
    note = tag("span", f" {result.note}", class_="error") if result.note else None
    mark = [" ", tag("span", "noisy", class_="chip fair")] if result.noisy else None
    name = case.name.removeprefix(f"{kind}, ")
    return tag("tr", tag("th", name, note, mark, scope="row"), cells)


def _missing(results: Sequence[Result]) -> Child:
    """Who did not run, and why: each reason once."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for name, why in result.missing.items():
            reasons.setdefault((name, why), []).append(result.case.name)
    if not reasons:
        return None
    items = [
        tag("li", tag("b", name), f": {why} ", tag("span", f"({_where(cases)})", class_="small"))
        for (name, why), cases in reasons.items()
    ]
    return [tag("h2", "What did not run"), tag("ul", items)]


def _where(cases: Sequence[str]) -> str:
    return cases[0] if len(cases) == 1 else f"{len(cases)} cases, such as {cases[0]}"


def _machine(data: Mapping[str, Any]) -> Child:
    machine = data["machine"]
    peers = [f"{name} {found}" for name, found in machine["peers"].items() if found]
    memory = machine["memory_gib"]
    pairs = {
        "Processor": f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads",
        "Instructions": " ".join(machine["flags"]) or "unknown",
        "Memory": f"{memory:.0f} GiB" if memory else "unknown",
        "System": machine["system"],
        "Software": f"posenc {machine['posenc']}, torch {machine['torch']}, "
        f"Python {machine['python']}",
        "C kernels": machine["native"],
        "Peers": listed(peers) if peers else "none is installed",
        "OMP_WAIT_POLICY": machine["wait_policy"] or "not set",
    }
    return [
        tag("h2", "Where it ran"),
        facts(pairs),
        tag("code", data["command"], class_="command"),
    ]
