"""The sections of report.html."""

import math
from collections.abc import Sequence

from posenc.lab import curves, figures, provenance
from posenc.lab.aggregate import Protocol, Study
from posenc.lab.folder import Run
from posenc.lab.intervals import LEVEL, Interval
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
from posenc.report.numbers import DASH, count, listed, number, signed

CHIPS = {HELD: "good", DEGRADED: "fair", BROKEN: "bad", DIVERGED: "bad"}
TITLES: dict[Protocol, str] = {"targets": "Fixed targets", "windows": "Whole windows"}


def page(runs: Sequence[Run], study: Study | None, verdict: Verdict | None, command: str) -> Markup:
    """Everything inside `<main>`."""
    parts: list[Child] = [marks.swatches(len(study.encodings)) if study else None]
    parts.append(_top(study, verdict))
    if study and verdict and study.measured:
        parts += [_verdict_table(study, verdict)] if _decided(verdict) else []
        parts += [_pictures(study, verdict)]
        parts += [_loss_tables(study, verdict), _costs(study)]
    if study:
        parts += [provenance.not_finished(study), provenance.problem_list(runs)]
        parts += [provenance.what_was_run(runs, study, command)]
    else:
        parts += [tag("h2", "The command"), tag("code", command, class_="command")]
    return Markup("\n".join(part for part in map(text, parts) if part))


def ranked_names(study: Study) -> list[str]:
    """Encodings by mean loss at the longest length, the best first; those without one last."""

    def place(name: str) -> tuple[float, str]:
        losses = study.losses("targets", name, study.longest)
        return (curves.mean(losses.values()) if losses else math.inf, name)

    return sorted(study.encodings, key=place)


def _top(study: Study | None, verdict: Verdict | None) -> Child:
    kicker = ["posenc compare"]
    if study and study.measured:
        kicker.append(f"{count(len(study.encodings), 'encoding')}, {_seed_count(study)} each")
        kicker.append(f"trained at {study.train_length} bytes, tested to {study.longest}")
    parts: list[Child] = [
        tag("p", " \N{MIDDLE DOT} ".join(kicker), class_="kicker"),
        tag("h1", headline(study, verdict)),
    ]
    if study and verdict and study.measured:
        said = [tag("li", sentence) for sentence in sentences(study, verdict)]
        parts += [tag("ul", said, class_="verdict")]
        parts += [small(_basis(study, verdict))] if _decided(verdict) else []
    return tag("header", parts)


def _decided(verdict: Verdict) -> bool:
    return bool(verdict.rankings) or any(one.near for one in verdict.judgements.values())


def _basis(study: Study, verdict: Verdict) -> str:
    scored = _target_tokens(study)
    same = f"the same {scored:,} bytes of test text" if scored else "the same bytes of test text"
    text = any(one.spans.get(("targets", study.longest)) for one in study.measured.values())
    chance = "the seed" + (" and, in changes and differences, of the test text" if text else "")
    return (
        f"Everything is decided from fixed targets: every length scores {same}, only the text "
        f"before them grows. Differences are taken seed by seed. Ranges are {LEVEL:.0%} intervals "
        f"(Student's t) for the luck of {chance}. Two seeds that happen to agree do not pass for "
        "certainty: an encoding's own spread is averaged with the spread of all, which is "
        f"{verdict.noise.floor:.3f} nats at the train length and {verdict.noise.share:.0%} of the "
        "rise past it, and never counts as less than its own. Comparisons with the best hold "
        "together at 95%."
    )


def _verdict_table(study: Study, verdict: Verdict) -> Child:
    near = verdict.near
    changes = [] if near is None else sorted({near, study.longest})
    heads = ["Encoding", "Verdict"]
    heads += [f"Change to {length}" for length in changes]
    heads += [f"Behind the best at {length}" for length in verdict.rankings]
    rows = []
    for name in ranked_names(study):
        judgement = verdict.judgements[name]
        cells: list[Child] = [tag("td", _chip(judgement.category), class_="words")]
        for length in changes:
            cells.append(_signed_cell(judgement.near if length == near else judgement.far))
        for ranking in verdict.rankings.values():
            if name == ranking.best:
                cells.append(tag("td", "best", class_="best"))
            else:
                cells.append(_signed_cell(ranking.behind.get(name), tie=name in ranking.ties))
        rows.append(tag("tr", _name_cell(study, name), cells))
    note = (
        f"Change: loss at that length minus loss at {study.train_length}, of the same model. "
        "Behind: loss minus the best encoding's loss. Nats per byte; less is better."
    )
    verdicts = table(heads, rows, "Verdict by encoding", words=(1,))
    parts: list[Child] = [tag("h2", "Verdict by encoding"), verdicts, small(note)]
    if near is not None:
        train, longest = study.train_length, study.longest
        rules = {
            BROKEN: f"the loss at {near} is above the loss at {train} by more than {BREAKS:g} nat",
            HELD: f"not so, and at {longest} it is above by less than {HOLDS:g} nats",
            DEGRADED: f"not so, and at {longest} it is above by more than {HOLDS:g} nats",
            UNDECIDED: "the 95% intervals allow more than one of these",
        }
        rows = [[tag("dt", _chip(name)), tag("dd", rule)] for name, rule in rules.items()]
        parts.append(tag("dl", rows, class_="facts small"))
    return parts


def _chip(category: str) -> Markup:
    return tag("span", category, class_=f"chip {CHIPS.get(category, 'open')}")


def _pictures(study: Study, verdict: Verdict) -> Child:
    drawn = {p: curves.length_curves(study, p, verdict.losses) for p in TITLES}
    every = [curve for protocol in TITLES for curve in drawn[protocol]]
    captions = {
        "targets": "Every length scores the same bytes; only the text before them grows. The "
        "verdict rests on this picture.",
        "windows": "Every byte of non-overlapping windows is scored. A longer window has "
        "relatively fewer bytes with little before them, so its loss falls a little by itself.",
    }
    shown = [
        tag(
            "figure",
            tag("h3", f"{title}, nats per byte"),
            figures.by_length(
                drawn[protocol],
                study.train_length,
                study.lengths,
                curves.described(drawn[protocol], f"length, {title.lower()}"),
                beside=every,
            ),
            tag("figcaption", captions[protocol]),
        )
        for protocol, title in TITLES.items()
    ]
    positions, steps = curves.position_curves(study), curves.training_curves(study)
    if any(curve.finite for curve in positions):
        alt = curves.described(positions, "position in the longest window")
        picture = figures.by_position(positions, study.train_length, alt)
        caption = (
            f"Where in a window of {study.longest} bytes the loss arises. Training never showed "
            "positions in the shaded part. Ups and downs that the lines share are the text's."
        )
        heading = tag("h3", f"By position at length {study.longest}, nats per byte")
        shown.append(tag("figure", heading, picture, tag("figcaption", caption)))
    if any(curve.finite for curve in steps):
        picture = figures.training(steps, curves.described(steps, "training step"))
        caption = (
            "Mean over seeds. A line that still falls at the right end was stopped before it was "
            "done: with more steps its encoding would come out better."
        )
        shown.append(
            tag("figure", tag("h3", "Training, nats per byte"), picture, tag("figcaption", caption))
        )
    note = (
        "Lines are means over seeds, dots are single seeds, bands are 95% intervals for the luck "
        "of the seed. "
    )
    if not _decided(verdict):
        note = "Lines are means over the seeds that there are. "
    note += "The shaded part lies past the train length."
    gone = [study.label(name) for name in study.encodings if study.diverged(name)]
    if gone:
        note += f" Where {listed(gone)} diverged, nothing is drawn."
    if any(y > figures.HIGHEST for curve in every for _, y in curve.finite):
        note += " An arrow marks a line that leaves the picture; the tables have its numbers."
    return [tag("h2", "Loss against length"), tag("div", shown, class_="figures"), small(note)]


def _loss_tables(study: Study, verdict: Verdict) -> Child:
    parts: list[Child] = [tag("h2", "Loss at each length")]
    reasons = {}
    for protocol, title in TITLES.items():
        rows = []
        for name in ranked_names(study):
            cells = []
            for length in study.lengths:
                found = verdict.losses[protocol, length].get(name)
                cells.append(_loss_cell(study, protocol, name, length, found))
                for one in study.of(name):
                    if length in one.missing:
                        reasons[f"{name} at {length}"] = one.missing[length]
            rows.append(tag("tr", _name_cell(study, name), cells))
        heads = ["Encoding", *map(str, study.lengths)]
        parts += [tag("h3", f"{title}, nats per byte"), table(heads, rows, title)]
    parts += [small(f"{DASH} {where}: {why}") for where, why in sorted(reasons.items())]
    return parts


def _costs(study: Study) -> Child:
    columns = {  # the row's key: heading and digits
        "parameters": ("Parameters", 0),
        "encoding_parameters": ("Its encoding's own", 0),
        "steps": ("Steps", 0),
        "ms_per_step": ("ms per step", 1),
        "peak_memory_mb": ("Memory, MB", 0),
        "trained_position": ("Largest trained position", 0),
        "trained_distance": ("Largest trained distance", 0),
    }
    rows = []
    for name in ranked_names(study):
        cells: list[Child] = []
        for key, (_, digits) in columns.items():
            found = [one.cost.get(key) for one in study.of(name)]
            values = [value for value in found if isinstance(value, int | float)]
            cells.append(tag("td", number(curves.mean(values) if values else None, digits)))
        seconds = [one.seconds for one in study.of(name) if one.seconds is not None]
        cells.append(tag("td", number(curves.mean(seconds) if seconds else None, 1)))
        rows.append(tag("tr", _name_cell(study, name), cells))
    heads = ["Encoding", *(head for head, _ in columns.values()), "Seconds per run"]
    note = (
        "Means over seeds. Time and memory are of this machine, with as many runs at once as it "
        "was given; they compare encodings within this report only. Memory is what training "
        "added to the process. The largest trained position and distance are the last that the "
        "trained encoding tells from the one before, among tokens that see each other; a dash "
        "where it has none."
    )
    return [tag("h2", "What each encoding costs"), table(heads, rows, "Costs"), small(note)]


def _name_cell(study: Study, name: str) -> Markup:
    return tag("th", marks.swatch(study.encodings.index(name)), name, scope="row")


def _signed_cell(found: Interval | None, *, tie: bool = False) -> Markup:
    if found is None:
        return tag("td", DASH)
    error = tag("span", f" {half_width(found)}", class_="error")
    return tag("td", signed(found.mean), error, " tie" if tie else None)


def _loss_cell(
    study: Study, protocol: Protocol, name: str, length: int, found: Interval | None
) -> Markup:
    losses = study.losses(protocol, name, length)
    if not losses:
        return tag("td", DASH)
    if found:
        error = tag("span", f" {half_width(found)}", class_="error")
        return tag("td", number(found.mean), error)
    mean = curves.mean(losses.values())
    lacks = len(study.seeds(name)) - len(losses)
    partly = f" ({len(losses)} of {len(losses) + lacks} seeds)" if lacks else None
    return tag("td", number(mean), partly)


def _seed_count(study: Study) -> str:
    counts = sorted({len(study.seeds(name)) for name in study.encodings})
    return f"{' to '.join(map(str, (counts[0], counts[-1])[: len(counts)]))} seed" + (
        "" if counts == [1] else "s"
    )


def _target_tokens(study: Study) -> int | None:
    for one in study.measured.values():
        for row in one.run.rows:
            if row["kind"] == "loss" and row.get("protocol") == "targets":
                tokens = row.get("tokens")
                return tokens if isinstance(tokens, int) else None
    return None
