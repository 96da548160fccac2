"""The tables of report.html."""

from typing import Any

from posenc.extend.cells import OWN
from posenc.extend.curves import SLIDING, names
from posenc.report import marks
from posenc.report.markup import Child, Markup, small, table, tag
from posenc.report.numbers import DASH, count, number, signed

Data = dict[str, Any]
CHIPS = {
    "better": ("beats sliding", "good"),
    "worse": ("worse than sliding", "bad"),
    "alike": ("tie with sliding", "open"),
}


def methods_table(data: Data) -> Child:
    """One line for each method, the best first: all that decides."""
    longest, verdict = str(max(data["to"])), data["verdict"]
    rows = []
    for name in _ranked(data):
        one = data["methods"][name]
        targets = one["targets"].get(longest)
        cells = [
            tag("td", _chip(verdict, name), class_="words"),
            tag("td", number(targets and targets["mean"], 3)),
            tag("td", "best", class_="best")
            if name == verdict["best"]
            else _difference(verdict["behind"].get(name), tie=name in verdict["ties"]),
            _difference(targets and targets.get("behind_sliding")),
            tag("td", _passkeys(one, longest)),
            _difference(one["short"] and one["short"].get("change")),
            *_cost(one["cost"].get(longest)),
        ]
        rows.append(tag("tr", _name_cell(data, name), cells))
    heads = [
        "Method", "Verdict", f"Loss at {int(longest):,}", "Behind the best", "Behind sliding",
        "Passkeys", f"Cost at {data['short']:,}", "Seconds", "Memory, MB",
    ]  # fmt: skip
    note = (
        f"Loss: nats per token on fixed targets. Sliding: the model as it is, in windows of "
        f"{data['trained']:,} tokens. Passkeys: found at {int(longest):,} tokens, with Wilson's "
        f"{data['level']:.0%} interval. Cost: loss on texts of {data['short']:,} tokens, minus "
        "that of the model as it is. Seconds and memory are of one whole window on this machine; "
        "memory is what reading it added."
    )
    return [tag("h2", "Methods"), table(heads, rows, "Methods", words=(1,)), small(note)]


def targets_table(data: Data) -> Child:
    """The same tokens with growing context, and whole windows beside."""
    lengths = sorted({int(n) for one in data["methods"].values() for n in one["targets"]})
    if not lengths:
        return None
    rows = []
    for name in [*_ranked(data), *([SLIDING] if SLIDING in names(data) else [])]:
        one = data["sliding"] if name == SLIDING else data["methods"][name]
        cells = [tag("td", _mean(one["targets"].get(str(n)))) for n in lengths]
        cells += [tag("td", _mean(one["windows"].get(str(n)))) for n in data["to"]]
        rows.append(tag("tr", _name_cell(data, name), cells))
    heads = ["Method", *(f"{n:,}" for n in lengths)]
    heads += [f"All tokens of {n:,}" for n in data["to"]]
    note = "The last columns are means over every token of whole windows."
    return [
        tag("h2", "Loss by how much is read"),
        table(heads, rows, "Loss by how much is read"),
        small(note),
    ]


def training_table(data: Data) -> Child:
    """How the training of each method went, where any was trained on."""
    courses = {name: one.get("tuning") for name, one in data["methods"].items()}
    known = {name: course for name, course in courses.items() if course}
    if not known:
        return None
    rows = []
    for name, course in known.items():
        values = [number(course[end], 3) for end in ("first", "last")]
        values += [number(course["seconds"], 1), course["file"]]
        rows.append(tag("tr", _name_cell(data, name), [tag("td", value) for value in values]))
    one = next(iter(known.values()))
    trained = "all weights" if one["rank"] is None else f"LoRA of rank {one['rank']}"
    note = (
        f"{count(one['steps'], 'step')} of one window of {one['length']:,} tokens, of "
        f"{count(one['windows'], 'window')} of text that nothing here is measured on: {trained}, "
        f"AdamW at {one['rate']:g}. Positions skip ahead once in a window, up to "
        f"{max(data['to']):,} (PoSE). Losses are means of the first and the last tenth of the "
        f"steps, and also tell of the text: compare a tuned row with that of {OWN}, tuned as long."
    )
    heads = ["Method", "First loss", "Last loss", "Seconds", "Weights"]
    return [tag("h2", "Training"), table(heads, rows, "Training"), small(note)]


def passkey_table(data: Data) -> Child:
    """A map of shares: methods by lengths and depths; the greener, the more were found."""
    tried = {name: one["passkey"] for name, one in data["methods"].items() if one["passkey"]}
    if not tried:
        return None
    places = sorted(
        {(int(n), float(depth)) for one in tried.values() for n, by in one.items() for depth in by}
    )
    blind = sorted({int(n) for name in tried for n in data["methods"][name]["control"]})
    rows = []
    for name, by_length in tried.items():
        cells = [_share(by_length.get(str(n), {}).get(f"{depth:g}")) for n, depth in places]
        cells += [_share(data["methods"][name]["control"].get(str(n))) for n in blind]
        rows.append(tag("tr", _name_cell(data, name), cells))
    heads = ["Method", *(f"{n:,} tokens, depth {depth:g}" for n, depth in places)]
    heads += [f"{n:,} tokens, none hidden" for n in blind]
    note = (
        "Keys that greedy decoding would say in full, of those tried; in brackets the rank of the "
        "key's worst token among all words, averaged: 0 is first. Depth 0 is the beginning of the "
        "text. Where none was hidden, what is found was guessed."
    )
    return [
        tag("h2", "Passkeys"),
        table(heads, rows, "Passkeys by length and depth"),
        small(note),
    ]


def _ranked(data: Data) -> list[str]:
    longest = str(max(data["to"]))

    def place(name: str) -> tuple[bool, float]:
        found = data["methods"][name]["targets"].get(longest)
        mean = found and found["mean"]
        return mean is None, mean or 0.0

    return sorted(data["methods"], key=place)


def _chip(verdict: Data, name: str) -> Child:
    for side, (words, colour) in CHIPS.items():
        if name in verdict[side]:
            return tag("span", words, class_=f"chip {colour}")
    return tag("span", "one span" if verdict["best"] else DASH, class_="chip open")


def _name_cell(data: Data, name: str) -> Markup:
    return tag("th", marks.swatch(names(data).index(name)), name, scope="row")


def _difference(found: Data | None, *, tie: bool = False) -> Markup:
    if found is None:
        return tag("td", DASH)
    half = number((found["high"] - found["low"]) / 2, 3)
    error = tag("span", f" \N{PLUS-MINUS SIGN} {half}", class_="error")
    return tag("td", signed(found["mean"], 3), error, " tie" if tie else None)


def _mean(found: Data | None) -> str:
    return DASH if found is None else number(found["mean"], 3)


def _passkeys(one: Data, longest: str) -> str:
    found = one["passkeys"].get(longest)
    if found is None:
        return DASH
    return f"{found['hits']}/{found['tries']} ({found['low']:.0%}{DASH}{found['high']:.0%})"


def _share(found: Data | None) -> Markup:
    if found is None:
        return tag("td", DASH)
    share = found["hits"] / found["tries"]
    rank = tag("span", f" ({number(found['rank'], 0)})", class_="error")
    return tag("td", f"{found['hits']}/{found['tries']}", rank, style=f"--share: {share:.0%}")


def _cost(found: Data | None) -> list[Markup]:
    if found is None:
        return [tag("td", DASH), tag("td", DASH)]
    return [tag("td", number(found["seconds"], 1)), tag("td", number(found["peak_mb"], 0))]
