"""The sections of report.html."""

import math
from collections.abc import Sequence

from posenc.lab import curves, provenance
from posenc.lab.aggregate import PROTOCOLS, Protocol, Study
from posenc.lab.folder import Run
from posenc.lab.intervals import LEVEL, Interval
from posenc.lab.pictures import pictures
from posenc.lab.published import Published, section
from posenc.lab.verdict import (
    BREAKS,
    BROKEN,
    DEGRADED,
    DIVERGED,
    HELD,
    HOLDS,
    UNDECIDED,
    Verdict,
)
from posenc.lab.wording import half_width, headline, sentences
from posenc.report import marks
from posenc.report.markup import Child, Markup, small, table, tag, text
from posenc.report.numbers import DASH, number, signed
from posenc.words import Words

CHIPS = {HELD: "good", DEGRADED: "fair", BROKEN: "bad", DIVERGED: "bad"}
# What costs are told, and with how many digits.
COSTS = {
    "parameters": 0,
    "encoding_parameters": 0,
    "steps": 0,
    "ms_per_step": 1,
    "peak_memory_mb": 0,
    "trained_position": 0,
    "trained_distance": 0,
}


def page(
    runs: Sequence[Run],
    study: Study | None,
    verdict: Verdict | None,
    command: str,
    say: Words,
    spoken: Sequence[Published] = (),
) -> Markup:
    """Everything inside `<main>`."""
    parts: list[Child] = [marks.swatches(len(study.encodings)) if study else None]
    parts.append(_top(study, verdict, say))
    if study and verdict and study.measured:
        parts += [_verdict_table(study, verdict, say)] if _decided(verdict) else []
        parts += [section(spoken, say)]
        parts += [pictures(study, verdict, say, decided=_decided(verdict))]
        parts += [_loss_tables(study, verdict, say), _costs(study, say)]
    if study:
        parts += [provenance.not_finished(study, say), provenance.problem_list(runs, say)]
        parts += [provenance.what_was_run(runs, study, command, say)]
    else:
        parts += [tag("h2", say("command")), tag("code", command, class_="command")]
    return Markup("\n".join(part for part in map(text, parts) if part))


def ranked_names(study: Study) -> list[str]:
    """Encodings by mean loss at the longest length, the best first; those without one last."""

    def place(name: str) -> tuple[float, str]:
        losses = study.losses("targets", name, study.longest)
        return (curves.mean(losses.values()) if losses else math.inf, name)

    return sorted(study.encodings, key=place)


def _top(study: Study | None, verdict: Verdict | None, say: Words) -> Child:
    kicker = ["posenc compare"]
    if study and study.measured:
        seeds = _seed_count(study, say)
        kicker.append(say("kicker_encodings", encodings=len(study.encodings), seeds=seeds))
        kicker.append(say("kicker_lengths", train=study.train_length, longest=study.longest))
    parts: list[Child] = [
        tag("p", " \N{MIDDLE DOT} ".join(kicker), class_="kicker"),
        tag("h1", headline(study, verdict, say)),
    ]
    if study and verdict and study.measured:
        said = [tag("li", sentence) for sentence in sentences(study, verdict, say)]
        parts += [tag("ul", said, class_="verdict")]
        parts += [small(_basis(study, verdict, say))] if _decided(verdict) else []
    return tag("header", parts)


def _decided(verdict: Verdict) -> bool:
    return bool(verdict.rankings) or any(one.near for one in verdict.judgements.values())


def _basis(study: Study, verdict: Verdict, say: Words) -> str:
    scored = _target_tokens(study)
    texts = any(one.spans.get(("targets", study.longest)) for one in study.measured.values())
    return say(
        "basis",
        same=say("same_bytes", count=scored) if scored else say("same_text"),
        chance=say("by_seed_and_text" if texts else "by_seed"),
        level=LEVEL,
        floor=verdict.noise.floor,
        share=verdict.noise.share,
    )


def _verdict_table(study: Study, verdict: Verdict, say: Words) -> Child:
    near = verdict.near
    changes = [] if near is None else sorted({near, study.longest})
    heads = [say("encoding"), say("verdict")]
    heads += [say("change_to", length=length) for length in changes]
    heads += [say("behind_at", length=length) for length in verdict.rankings]
    rows = []
    for name in ranked_names(study):
        judgement = verdict.judgements[name]
        cells: list[Child] = [tag("td", _chip(judgement.category, say), class_="words")]
        for length in changes:
            cells.append(_signed_cell(judgement.near if length == near else judgement.far))
        for ranking in verdict.rankings.values():
            if name == ranking.best:
                cells.append(tag("td", say("best"), class_="best"))
            else:
                tie = say("tie") if name in ranking.ties else None
                cells.append(_signed_cell(ranking.behind.get(name), tie))
        rows.append(tag("tr", _name_cell(study, name), cells))
    title = say("verdicts")
    note = small(say("verdict_note", train=study.train_length))
    parts: list[Child] = [tag("h2", title), table(heads, rows, title, words=(1,)), note]
    if near is not None:
        lengths = {"near": near, "train": study.train_length, "longest": study.longest}
        rules = [
            [
                tag("dt", _chip(category, say)),
                tag("dd", say(f"rule_{category}", **lengths, breaks=BREAKS, holds=HOLDS)),
            ]
            for category in (BROKEN, HELD, DEGRADED, UNDECIDED)
        ]
        parts.append(tag("dl", rules, class_="facts small"))
    return parts


def _chip(category: str, say: Words) -> Markup:
    return tag("span", say(category), class_=f"chip {CHIPS.get(category, 'open')}")


def _loss_tables(study: Study, verdict: Verdict, say: Words) -> Child:
    parts: list[Child] = [tag("h2", say("at_each_length"))]
    reasons = {}
    for protocol in PROTOCOLS:
        rows = []
        for name in ranked_names(study):
            cells = []
            for length in study.lengths:
                found = verdict.losses[protocol, length].get(name)
                cells.append(_loss_cell(study, protocol, name, length, found, say))
                for one in study.of(name):
                    if length in one.missing:
                        where = say("name_at", name=name, length=length)
                        reasons[where] = one.missing[length]
            rows.append(tag("tr", _name_cell(study, name), cells))
        heads = [say("encoding"), *map(str, study.lengths)]
        title = say(protocol)
        parts += [tag("h3", say("per_byte", title=title)), table(heads, rows, title)]
    parts += [
        small(say("missing", dash=DASH, where=where, why=why))
        for where, why in sorted(reasons.items())
    ]
    return parts


def _costs(study: Study, say: Words) -> Child:
    rows = []
    for name in ranked_names(study):
        cells: list[Child] = []
        for key, digits in COSTS.items():
            found = [one.cost.get(key) for one in study.of(name)]
            values = [value for value in found if isinstance(value, int | float)]
            cells.append(tag("td", number(curves.mean(values) if values else None, digits)))
        seconds = [one.seconds for one in study.of(name) if one.seconds is not None]
        cells.append(tag("td", number(curves.mean(seconds) if seconds else None, 1)))
        rows.append(tag("tr", _name_cell(study, name), cells))
    heads = [say("encoding"), *map(say, COSTS), say("seconds")]
    costs = table(heads, rows, say("costs_label"))
    return [tag("h2", say("costs")), costs, small(say("costs_note"))]


def _name_cell(study: Study, name: str) -> Markup:
    return tag("th", marks.swatch(study.encodings.index(name)), name, scope="row")


def _signed_cell(found: Interval | None, tie: str | None = None) -> Markup:
    if found is None:
        return tag("td", DASH)
    error = tag("span", f" {half_width(found)}", class_="error")
    return tag("td", signed(found.mean), error, tie)


def _loss_cell(
    study: Study, protocol: Protocol, name: str, length: int, found: Interval | None, say: Words
) -> Markup:
    losses = study.losses(protocol, name, length)
    if not losses:
        return tag("td", DASH)
    if found:
        error = tag("span", f" {half_width(found)}", class_="error")
        return tag("td", number(found.mean), error)
    mean = number(curves.mean(losses.values()), lost=say("diverged"))
    seeds = len(study.seeds(name))
    partly = say("some_seeds", found=len(losses), all=seeds) if len(losses) < seeds else None
    return tag("td", mean, partly)


def _seed_count(study: Study, say: Words) -> str:
    counts = sorted({len(study.seeds(name)) for name in study.encodings})
    if len(counts) == 1:
        return say("seeds", count=counts[0])
    return say("seeds_between", fewest=counts[0], most=counts[-1])


def _target_tokens(study: Study) -> int | None:
    for one in study.measured.values():
        for row in one.run.rows:
            if row["kind"] == "loss" and row.get("protocol") == "targets":
                tokens = row.get("tokens")
                return tokens if isinstance(tokens, int) else None
    return None
