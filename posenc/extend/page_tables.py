"""The tables of report.html."""

from typing import Any

from posenc.extend.cells import OWN
from posenc.extend.curves import names
from posenc.extend.sentences import SLIDING, called
from posenc.report import marks
from posenc.report.markup import Child, Markup, small, table, tag
from posenc.report.numbers import DASH, number, signed
from posenc.words import Words

Data = dict[str, Any]
CHIPS = {"better": ("beats", "good"), "worse": ("loses", "bad"), "alike": ("ties_sliding", "open")}


def methods_table(data: Data, say: Words) -> Child:
    """One line for each method, the best first: all that decides."""
    longest, verdict = str(max(data["to"])), data["verdict"]
    rows = []
    for name in _ranked(data):
        one = data["methods"][name]
        targets = one["targets"].get(longest)
        cells = [
            tag("td", _chip(verdict, name, say), class_="words"),
            tag("td", number(targets and targets["mean"], 3)),
            tag("td", say("best"), class_="best")
            if name == verdict["best"]
            else _difference(
                verdict["behind"].get(name), say("tie") if name in verdict["ties"] else None
            ),
            _difference(targets and targets.get("behind_sliding")),
            tag("td", _passkeys(one, longest)),
            _difference(one["short"] and one["short"].get("change")),
            *_cost(one["cost"].get(longest)),
        ]
        rows.append(tag("tr", _name_cell(data, name, say), cells))
    lengths = {"longest": int(longest), "short": data["short"], "trained": data["trained"]}
    keys = (
        "method", "verdict", "loss_of", "behind_best", "behind_sliding", "passkeys", "cost_at",
        "seconds", "memory",
    )  # fmt: skip
    heads, title = [say(key, **lengths) for key in keys], say("methods")
    note = say("methods_note", **lengths, level=data["level"])
    return [tag("h2", title), table(heads, rows, title, words=(1,)), small(note)]


def targets_table(data: Data, say: Words) -> Child:
    """The same tokens with growing context, and whole windows beside."""
    lengths = sorted({int(n) for one in data["methods"].values() for n in one["targets"]})
    if not lengths:
        return None
    rows = []
    for name in [*_ranked(data), *([SLIDING] if SLIDING in names(data) else [])]:
        one = data["sliding"] if name == SLIDING else data["methods"][name]
        cells = [tag("td", _mean(one["targets"].get(str(n)))) for n in lengths]
        cells += [tag("td", _mean(one["windows"].get(str(n)))) for n in data["to"]]
        rows.append(tag("tr", _name_cell(data, name, say), cells))
    heads = [say("method"), *(f"{n:,}" for n in lengths)]
    heads += [say("all_tokens", length=n) for n in data["to"]]
    title = say("by_context")
    return [tag("h2", title), table(heads, rows, title), small(say("by_context_note"))]


def training_table(data: Data, say: Words) -> Child:
    """How the training of each method went, where any was trained on."""
    courses = {name: one.get("tuning") for name, one in data["methods"].items()}
    known = {name: course for name, course in courses.items() if course}
    if not known:
        return None
    rows = []
    for name, course in known.items():
        values = [number(course[end], 3) for end in ("first", "last")]
        values += [number(course["seconds"], 1), course["file"]]
        rows.append(tag("tr", _name_cell(data, name, say), [tag("td", value) for value in values]))
    one = next(iter(known.values()))
    trained = say("all_weights") if one["rank"] is None else say("lora", rank=one["rank"])
    chosen = {key: one[key] for key in ("steps", "length", "windows", "rate")}
    note = say("training_note", **chosen, trained=trained, longest=max(data["to"]), own=OWN)
    heads = [say(key) for key in ("method", "first_loss", "last_loss", "seconds", "weights")]
    title = say("training")
    return [tag("h2", title), table(heads, rows, title), small(note)]


def passkey_table(data: Data, say: Words) -> Child:
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
        rows.append(tag("tr", _name_cell(data, name, say), cells))
    heads = [say("method"), *(say("at_depth", length=n, depth=depth) for n, depth in places)]
    heads += [say("none_hidden", length=n) for n in blind]
    found = table(heads, rows, say("passkeys_by"))
    return [tag("h2", say("passkeys")), found, small(say("passkeys_note"))]


def _ranked(data: Data) -> list[str]:
    longest = str(max(data["to"]))

    def place(name: str) -> tuple[bool, float]:
        found = data["methods"][name]["targets"].get(longest)
        mean = found and found["mean"]
        return mean is None, mean or 0.0

    return sorted(data["methods"], key=place)


def _chip(verdict: Data, name: str, say: Words) -> Child:
    for side, (text, colour) in CHIPS.items():
        if name in verdict[side]:
            return tag("span", say(text), class_=f"chip {colour}")
    return tag("span", say("only_span") if verdict["best"] else DASH, class_="chip open")


def _name_cell(data: Data, name: str, say: Words) -> Markup:
    return tag("th", marks.swatch(names(data).index(name)), called(name, say), scope="row")


def _difference(found: Data | None, tie: str | None = None) -> Markup:
    if found is None:
        return tag("td", DASH)
    half = number((found["high"] - found["low"]) / 2, 3)
    error = tag("span", f" \N{PLUS-MINUS SIGN} {half}", class_="error")
    return tag("td", signed(found["mean"], 3), error, tie)


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
